"""Resources of the kernels as nvcc compiles them: registers, spills, shared memory, and PTX."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kernels import nvcc
from kernels.errors import BuildError
from kernels.ops.fma.problem import CHAINS
from kernels.ops.fma.variants import CUDA_SOURCE as SOURCE
from tests.simulated import cases
from tests.simulated.cases import ARCHS

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "kernels").rglob("*.cu"))
# Registers a thread, at most on any architecture, and bytes of static shared memory. A multiprocessor has
# 65,536 registers: 144 let it hold seven blocks of sgemm_tiled, 32 or 40 six to eight blocks of 256, or
# three of fma_chains10, of which it runs one.
BUDGETS = {
    "sgemm_naive": (32, 0),
    "sgemm_tiled": (144, 2 * 16 * 68 * 4),
    "transpose_naive": (32, 0),
    "transpose_tiled": (32, 64 * 33 * 4),
    "stream_read": (32, 8 * 4),
    "stream_copy": (32, 0),
    "stream_triad": (40, 0),
    "fma_chains10": (40, 0),
    "launch_empty": (8, 0),
    "launch_gemm": (32, 0),
    **{f"{kind}_{phase}": (32, 0) for kind in ("relu", "sigmoid", "tanh", "exp") for phase in ("forward", "dgrad")},
    **{f"pooling_{pool}_{phase}": (40, 0) for pool in ("max", "avg") for phase in ("forward", "dgrad")},
    "biasact_forward": (32, 0),
    "biasact_dgrad": (48, 4 * 256),
    **{f"norm_train_{phase}": (32, 4 * 8) for phase in ("forward", "dgrad")},
    "norm_frozen_forward": (32, 0),
    "norm_frozen_dgrad": (32, 4 * 8),
    "csr_rows": (32, 0),
    "dropout_key": (16, 0),
    "dropout_both": (32, 0),
    "chase_build": (32, 0),
    "chase_touch": (16, 0),
    "chase_walk": (32, 0),
    **{f"cast_{kind}": (32, 0) for kind in ("f64_f32", "f32_f32", "f32_bf16", "bf16_f32", "clear", "fill")},
    **dict.fromkeys(("exchange_shuffle", "exchange_clear", "exchange_add_global"), (32, 0)),
    "exchange_load": (32, 4 * (1024 + 7)),
    "exchange_add_shared": (32, 4 * 1024),
    **{f"implicit_{x}": (64, 2 * 16 * 68 * 4) for x in ("forward", "dgrad", "wgrad")},
    "columns_of": (32, 0),
    "columns_back": (40, 0),
    **dict.fromkeys(("frames_of", "frames_back"), (32, 0)),
    **{f"winograd2_{stage}": (40, 0) for stage in ("image", "gradient", "result", "filter", "dfilter")},
    # All 36 numbers of a tile, in registers.
    **{f"winograd4_{stage}": (64, 0) for stage in ("image", "gradient", "result", "filter", "dfilter")},
    **{f"norm_lrn_{phase}": (40, 0) for phase in ("forward", "dgrad")},
    "softmax_index": (32, 108),
    "softmax_onehot": (32, 108),
    "optimizer_sgd": (32, 0),
    "optimizer_momentum": (32, 0),
    "optimizer_adam": (48, 0),
    # A block a multiprocessor; of wgmma 128 registers are its sums.
    **{f"mma_{dtype}": (64, 0) for dtype in ("tf32", "bf16", "fp16")},
    **{f"wgmma_{dtype}": (168, 32 * (2 * 64 + 256)) for dtype in ("tf32", "bf16", "fp16")},
}
needs_nvcc = pytest.mark.skipif(nvcc.missing() is not None, reason=nvcc.missing() or "")
COMPILED = [
    (source, arch)
    for source in SOURCES
    for arch in next(cases.archs(kernel) for kernel in cases.KERNELS if kernel.source == source)
]


def excess(found: dict[str, nvcc.Resources]) -> list[str]:
    """Kernels that take more than their budget, and how."""
    told = []
    for name, it in found.items():
        registers, shared = BUDGETS[name]
        if it.registers > registers:
            told.append(f"{name}: {it.registers} registers, {registers} are its budget")
        if it.spill_stores or it.spill_loads or it.stack:
            told.append(f"{name}: {it.stack} bytes of stack, {it.spill_stores} + {it.spill_loads} of spills")
        if it.shared != shared:
            told.append(f"{name}: {it.shared} bytes of shared memory, not {shared}")
    return told


def test_every_kernel_has_a_budget() -> None:
    assert set(BUDGETS) == set(cases.NAMES)


@needs_nvcc
@pytest.mark.parametrize(("source", "arch"), COMPILED, ids=lambda x: getattr(x, "name", x))
def test_kernels_keep_their_budgets(source: Path, arch: str, own_state: Path) -> None:
    found = nvcc.resources(source, arch)
    assert set(found) == {kernel.name for kernel in cases.KERNELS if kernel.source == source}
    assert excess(found) == []
    assert nvcc.cubin(source, arch).read_bytes()[:4] == b"\x7fELF"


@needs_nvcc
def test_more_than_the_budget_is_told(own_state: Path, tmp_path: Path) -> None:
    """All sixteen reads of a tile at once take more registers than are kept free for them."""
    text = cases.gemm.SOURCE.read_text()
    greedy = tmp_path / "gemm.cu"
    greedy.write_text(text.replace("#pragma unroll 4", "#pragma unroll"))
    assert any("registers, 144 are its budget" in line for line in excess(nvcc.resources(greedy, "sm_90")))
    greedy.write_text(text.replace("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 16)"))
    told = excess(nvcc.resources(greedy, "sm_90"))
    assert any("of spills" in line for line in told)
    greedy.write_text(text.replace("TILE + 4", "TILE + 8"))
    assert any("9216 bytes of shared memory, not 8704" in line for line in excess(nvcc.resources(greedy, "sm_90")))


@needs_nvcc
def test_error_and_warning_of_a_source_are_told(own_state: Path, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    source.write_text('extern "C" __global__ void f(float *y)\n{\n    y[0] = no_such;\n}\n')
    with pytest.raises(BuildError, match=r'^wrong.cu does not compile for -arch=sm_90: .*"no_such" is undefined'):
        nvcc.cubin(source, "sm_90")
    source.write_text('extern "C" __global__ void f(float *y)\n{\n    int unused;\n    y[0] = 0;\n}\n')
    with pytest.raises(BuildError, match="unused"):
        nvcc.cubin(source, "sm_90")


UNROLL = 64
FMA = "fma.rn.f32"
HALF = "0f3F000000"  # 0.5
LABEL = re.compile(r"(\$\w+):")
BACK = re.compile(r"bra(?:\.uni)?\s+(\$\w+);")
needs_nvcc = pytest.mark.skipif(nvcc.missing() is not None, reason=nvcc.missing() or "")


def ptx(source: Path, arch: str, folder: Path) -> str:
    path, made = nvcc.find(), folder / f"{arch}.ptx"
    assert path is not None
    subprocess.run([path, "-ptx", "-O3", f"-arch={arch}", source, "-o", made], check=True)
    return made.read_text()


def loops(text: str) -> list[list[str]]:
    """The instructions from each label to a jump back to it, the longest loop first."""
    at: dict[str, int] = {}
    instructions: list[str] = []
    found = []
    for line in map(str.strip, text.splitlines()):
        if label := LABEL.match(line):
            at[label[1]] = len(instructions)
        elif line.endswith(";") and not line.startswith("."):
            instructions.append(line)
            if (back := BACK.search(line)) and back[1] in at:
                found.append(instructions[at[back[1]] :])
    return sorted(found, key=len, reverse=True)


def opcodes(loop: list[str]) -> Counter[str]:
    return Counter(line.split()[1 if line.startswith("@") else 0] for line in loop)


@needs_nvcc
@pytest.mark.parametrize("arch", ARCHS)
def test_loop_is_multiply_adds(arch: str, tmp_path: Path) -> None:
    rounds, rest = loops(ptx(SOURCE, arch, tmp_path))
    for loop, steps in ((rounds, UNROLL), (rest, 1)):
        counts = opcodes(loop)
        assert counts.pop(FMA) == steps * CHAINS
        assert set(counts) <= {"add.s32", "setp.ne.s32", "bra"} and counts.total() == 3  # count, compare, jump
    added = {line.rstrip(";").split(", ")[-1] for line in rounds if FMA in line}
    assert len(added) == 1 and all(f", {HALF}, " in line for line in rounds if FMA in line)


@needs_nvcc
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (f"UNROLL = {UNROLL}", "UNROLL = 1"),
        ("x[c] * 0.5f + d", "__fadd_rn(x[c] * 0.5f, d)"),
        ("x[c] = x[c]", "x[c] = x[0]"),
    ],
    ids=["not unrolled", "not fused", "chains merged"],
)
def test_other_loops_are_told(old: str, new: str, tmp_path: Path) -> None:
    text = SOURCE.read_text()
    assert old in text
    source = tmp_path / "fma.cu"
    source.write_text(text.replace(old, new))
    counts = opcodes(loops(ptx(source, "sm_90", tmp_path))[0])
    assert counts[FMA] < UNROLL * CHAINS or counts.total() > UNROLL * CHAINS + 3
