"""Our own kernels as checkers and profilers are given them: all of them, rightly bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import nvcc
from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.errors import UsageError
from kernels.ops.gemm import Gemm
from micro.probing import own_kernels
from micro.probing.own_kernels import Own
from tests.simulated import launcher

SOURCES = sorted(own_kernels.OPS.glob("*/*.cu"))
CACHE = 50 << 20  # bytes: the second level of an H100


def kernels() -> list[str]:
    return [name for path in SOURCES for name in launcher.names(path.read_text())]


def test_every_kernel_is_there_once() -> None:
    assert len(SOURCES) > 5
    assert sorted(own.kernel for own in own_kernels.SMALL) == sorted(kernels())


@pytest.mark.parametrize("own", own_kernels.SMALL, ids=lambda own: own.kernel)
def test_a_small_one_is_launched_and_right(device: Cuda, own: Own) -> None:
    told: list[dict[str, Any]] = []
    assert own_kernels.each(device, "small", (own.kernel,), told.append) == 1
    assert told == [{"kernel": own.kernel, "right": True}]
    started = {name for name, _, _ in device.cp.started}
    before = {own.kernel.replace("dgrad", "forward")} if own.problem.op in ("pooling", "norm") else set()  # of a step
    if own.problem.op in ("conv", "chase", "dropout", "exchange"):  # a call is all stages of one file
        before = {x.kernel for x in own_kernels.SMALL if x.row == own.row and x.problem.op == own.problem.op} & started
    assert started == {own.kernel} | before


@pytest.mark.parametrize("own", own_kernels.LARGE, ids=lambda own: own.kernel)
def test_a_large_one_is_a_row_that_takes_it_and_no_cache_holds_it(own: Own) -> None:
    assert find(own.problem.op, own.row).accepts(own.problem) is None
    assert own.problem.footprint > 5 * CACHE
    (small,) = (x for x in own_kernels.SMALL if x.kernel == own.kernel)
    assert (small.row, small.problem.op) == (own.row, own.problem.op)


def test_eight_large_ones_are_launched(device: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the sizes of the small ones, with those of the small ones that are not among them left out."""
    names = tuple(own.kernel for own in own_kernels.LARGE)
    monkeypatch.setattr(own_kernels, "LARGE", tuple(own for own in own_kernels.SMALL if own.kernel in names))
    told: list[dict[str, Any]] = []
    assert own_kernels.each(device, "large", (), told.append) == len(names) == 8
    assert [x["kernel"] for x in told] == [own.kernel for own in own_kernels.LARGE] and all(len(x) == 1 for x in told)
    assert {name for name, _, _ in device.cp.started} == set(names)


def test_what_is_wrong_or_fails_is_told_and_the_next_is_launched(device: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    naive, tiled, transpose = (own_kernels.SMALL[i] for i in (0, 1, 2))
    wrong = replace(naive, problem=Worse(33, 65, 17))
    failing = replace(tiled, problem=Gemm(33, 65, 17, dtype="bf16"))
    monkeypatch.setattr(own_kernels, "SMALL", (wrong, failing, transpose))
    told: list[dict[str, Any]] = []
    own_kernels.each(device, "small", (), told.append)
    assert [x.get("right") for x in told] == [False, None, True]
    assert told[1]["error"]


class Worse(Gemm):
    """Whose right answer is another."""

    def reference(self, x: Any) -> Any:
        return {"c": super().reference(x)["c"] + 1}


def test_operands_have_an_allocation_each_and_what_is_only_written_is_not_written_before(
    device: Cuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    blocks: list[int] = []
    empty = device.cp.empty

    def made(nbytes: int, kind: Any) -> Any:
        blocks.append(nbytes)
        return empty(nbytes, kind)

    monkeypatch.setattr(device.cp, "empty", made)
    own = own_kernels.SMALL[0]
    own_kernels.bound(device, own, lambda block, view, name: given.append(name))
    assert blocks == [x.nbytes for x in own.problem.operands()]
    assert given == ["a", "b"]


def test_a_kernel_that_is_not_there(device: Cuda) -> None:
    with pytest.raises(UsageError, match="no small kernel nothing"):
        own_kernels.each(device, "small", ("nothing",), lambda line: None)


def test_all_files_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Path, str]] = []
    monkeypatch.setattr(nvcc, "cubin", lambda source, arch: asked.append((source, arch)))
    monkeypatch.setattr(nvcc, "missing", lambda: None)
    assert own_kernels.compiled("sm_90") == {"files": len(SOURCES), "compiled": len(SOURCES), "failed": []}
    assert dict(asked) == {source: "sm_90a" if source.stem == "wgmma" else "sm_90" for source in SOURCES}
    asked.clear()
    assert own_kernels.compiled("sm_80")["files"] == len(SOURCES) - 1
    assert {arch for _, arch in asked} == {"sm_80"}


@pytest.mark.parametrize(("arch", "hopper"), [("sm_80", None), ("sm_90", "sm_90a"), ("sm_100", None)])
def test_a_file_for_one_architecture_is_compiled_for_it_alone(arch: str, hopper: str | None) -> None:
    found = {path.stem: own for path, own in own_kernels.sources(arch).items()}
    assert found.pop("wgmma", None) == hopper
    assert len(found) > 5 and set(found.values()) == {arch}
