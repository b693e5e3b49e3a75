"""Our own C kernels by instruction set and threads: right in each, the set read off their code, wrong parts refused."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import build, openmp
from kernels.catalog import find
from kernels.devices.cpu import instruction_sets
from kernels.errors import Unavailable, WrongResult
from kernels.isa import BITS, MARCH
from kernels.ops.activation import variants as activation
from kernels.ops.activation.problem import Activation
from kernels.ops.conv.problem import Conv
from kernels.ops.fft.problem import Fft
from kernels.ops.gemm.problem import Gemm
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.softmax.problem import Softmax
from kernels.ops.stream.problem import Stream
from kernels.setting import Setting
from tests.kernels.rows import CPU, checked

KERNELS: tuple[tuple[Any, str], ...] = (
    (Activation(10_007, "sigmoid"), "c"),
    (Activation(10_007, "relu", "dgrad"), "c"),
    (Softmax(7, 101), "c"),
    (Optimizer("momentum", 3, 1001), "c"),
    (Gemm(61, 40, 57), "blocked"),
    (Gemm(61, 40, 57, "tn"), "blocked"),
    (Gemm(17, 20, 57), "naive"),
    (Conv(3, 16, 9, 9, 32, pad=1), "direct"),
    (Conv(3, 16, 9, 9, 4, direction="dgrad"), "direct"),
    (Fft(5, 32, 64), "c"),
    (Stream("copy", 4 * 1003), "c"),
    (Stream("triad", 4 * 1003), "c"),
)
SETS = [word for word in MARCH if openmp.NAMED[word] in instruction_sets()]


def ran(problem: Any, variant: str, setting: Setting) -> tuple[str | None, str | None] | None:
    """What its launch says that it runs."""
    checked(problem, variant, setting=setting)
    bind = find(problem.op, variant).prepare(problem, CPU, setting)
    blocks = [CPU.allocate(x.nbytes) for x in problem.operands()]
    return bind([CPU.view(b, 0, x) for b, x in zip(blocks, problem.operands(), strict=True)]).kernel


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(("problem", "variant"), KERNELS, ids=lambda x: getattr(x, "name", x))
def test_each_is_right_by_several_threads(problem: Any, variant: str, threads: int) -> None:
    checked(problem, variant, setting=Setting(threads))


@pytest.mark.parametrize("isa", SETS)
@pytest.mark.parametrize(("problem", "variant"), KERNELS, ids=lambda x: getattr(x, "name", x))
def test_each_is_right_in_every_set_and_tells_it(problem: Any, variant: str, isa: str) -> None:
    words, observed = ran(problem, variant, Setting(2, isa=isa)) or (None, None)
    assert observed == isa and words is not None and isa in words
    if shutil.which("objdump"):
        assert f"{BITS[isa]}-bit registers" in words


def test_a_set_that_is_not_here_or_no_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.devices.cpu.instruction_sets", lambda: ("sse",))
    with pytest.raises(Unavailable, match="this processor lacks avx512"):
        openmp.flags(Setting(isa="avx512"))
    with pytest.raises(Unavailable, match="--isa Haswell applies only to OpenBLAS"):
        openmp.flags(Setting(isa="Haswell"))
    assert openmp.flags(Setting()) == () and openmp.compiled(activation.SOURCE, (), Setting()) is None


def test_code_that_does_not_use_the_set_says_which_it_uses(tmp_path: Path) -> None:
    """Of scalar code no register is wider than 128 bits, whatever the compiler was held to."""
    if not shutil.which("objdump") or not SETS:
        pytest.skip("no objdump, or no set of x86")
    source = tmp_path / "scalar.c"
    source.write_text("float half(float x) { return x * 0.5f; }\n")
    setting = Setting(isa=SETS[-1])
    words, observed = openmp.compiled(source, openmp.flags(setting), setting) or (None, None)
    assert observed == "sse4.2" and words is not None and "128-bit" in words


def test_without_a_disassembler_the_compiler_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    if not SETS:
        pytest.skip("no set of x86")
    openmp.widest.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda name: None)
    setting = Setting(isa=SETS[0])
    build_flags = (*openmp.flags(setting), "-DALONE")
    monkeypatch.setattr(build, "shared", lambda source, flags: Path("nowhere.so"))
    words, observed = openmp.compiled(activation.SOURCE, build_flags, setting) or (None, None)
    assert observed == SETS[0] and words is not None and "compiler's word" in words
    openmp.widest.cache_clear()


@pytest.mark.parametrize("harm", [{"strides": {"x": 4, "y": 0}}, {"total": 9_000}, {"strides": {"x": 8, "y": 4}}])
def test_parts_in_wrong_places_are_refused(harm: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Activation(10_007, "sigmoid")
    right = openmp.launched

    def wrong(
        function: int, argument: Any, names: Any, buffers: Any, setting: Any, axis: openmp.Axis, *keep: Any, **more: Any
    ) -> Any:
        return right(function, argument, names, buffers, setting, replace(axis, **harm), *keep, **more)

    monkeypatch.setattr(openmp, "launched", wrong)
    with pytest.raises(WrongResult):
        checked(problem, "c", setting=Setting(2))


def test_wgrad_sums_over_images_and_stays_on_one_thread() -> None:
    with pytest.raises(Unavailable, match="--threads 1"):
        checked(Conv(3, 16, 9, 9, 32, direction="wgrad"), "direct", setting=Setting(2))
    with pytest.raises(Unavailable, match="--threads 1"):
        checked(Optimizer("norm", 3, 100), "c", setting=Setting(2))


def test_pools_within_pools_are_right_and_counted() -> None:
    checked(Gemm(61, 40, 57), "nested:2x1", setting=Setting(2))
    checked(Gemm(61, 40, 57, "tn"), "nested:2x1", setting=Setting(2))
    with pytest.raises(Unavailable, match="--threads 2"):
        checked(Gemm(61, 40, 57), "nested:2x1", setting=Setting(1))
