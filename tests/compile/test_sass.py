"""Machine code of our kernels: wide loads where promised, multiply-adds alone in the loops of the ceilings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.ops.fma.problem import CHAINS
from tests.compile import sass
from tests.compile.test_nvcc import nowhere  # noqa: F401 — no toolkit and no wheel
from tests.simulated import cases

needs_nvdisasm = pytest.mark.skipif(sass.missing() is not None, reason=sass.missing() or "")
each = pytest.mark.parametrize("arch", cases.ARCHS)
# Loads and stores of 16 bytes that a turn of the loop makes, or where there is none, a thread.
LOOPS = {
    "stream_read": (1, 0),
    "stream_copy": (1, 1),
    "stream_triad": (2, 1),
    "optimizer_sgd": (2, 1),
    "optimizer_momentum": (3, 2),
    "optimizer_adam": (4, 3),
}
STRAIGHT = {
    f"{kind}_{phase}": (loads, 1)
    for kind in ("relu", "sigmoid", "tanh", "exp")
    for phase, loads in (("forward", 1), ("dgrad", 2))
}
MULTIPLY = {  # of tensor cores, the instruction of each type
    "mma_tf32": ("HMMA", "1688", "F32", "TF32"),
    "mma_bf16": ("HMMA", "16816", "F32", "BF16"),
    "mma_fp16": ("HMMA", "16816", "F32"),
    "wgmma_tf32": ("HGMMA", "64x256x8", "F32", "TF32"),
    "wgmma_bf16": ("HGMMA", "64x256x16", "F32", "BF16"),
    "wgmma_fp16": ("HGMMA", "64x256x16", "F32"),
}
ROUND = {"mma": 64, "wgmma": 8}  # of them in a turn of the loop
UNROLL = 64  # steps of a turn of the FMA ceiling
WAITS = ("WARPGROUP.DEPBAR", "WARPSYNC", "BAR")


def code(name: str, arch: str) -> sass.Code:
    kernel = cases.find(name)
    return sass.kernels(kernel.source, arch)[name]


def wide(found: sass.Code) -> tuple[int, int]:
    return sass.count(found, "LDG", "128"), sass.count(found, "STG", "128")


def narrow(found: sass.Code) -> int:
    return sass.count(found, "LDG") + sass.count(found, "STG") - sum(wide(found))


def vector_loops(found: sass.Code, loads: int, stores: int) -> list[sass.Code]:
    """Those that move so much a turn, or several such turns at once, all of it by 16 bytes."""
    return [
        loop
        for loop in sass.loops(found)
        if wide(loop)[0] and wide(loop)[0] * stores == wide(loop)[1] * loads and not narrow(loop)
    ]


def purity(loop: sass.Code, name: str, *parts: str) -> float:
    """The share of one instruction."""
    return sass.count(loop, name, *parts) / len(loop)


def waits(loop: sass.Code) -> list[str]:
    return [op for op in sass.opcodes(loop) if op.startswith(WAITS)]


@needs_nvdisasm
@each
@pytest.mark.parametrize("name", LOOPS)
def test_loops_move_16_bytes_at_a_time(name: str, arch: str, own_state: Path) -> None:
    assert vector_loops(code(name, arch), *LOOPS[name])


@needs_nvdisasm
@each
@pytest.mark.parametrize("name", STRAIGHT)
def test_activations_move_16_bytes_a_thread(name: str, arch: str, own_state: Path) -> None:
    assert wide(code(name, arch)) == STRAIGHT[name]


@needs_nvdisasm
@each
def test_the_loop_of_the_fma_ceiling_is_multiply_adds(arch: str, own_state: Path) -> None:
    rounds = sass.loops(code("fma_chains10", arch))[0]
    assert sass.count(rounds, "FFMA") == UNROLL * CHAINS
    assert purity(rounds, "FFMA") >= 0.99


@needs_nvdisasm
@pytest.mark.parametrize(
    ("name", "arch"), [(name, arch) for name in MULTIPLY for arch in cases.archs(cases.find(name))]
)
def test_the_loop_of_a_tensor_core_ceiling_is_products(name: str, arch: str, own_state: Path) -> None:
    """Of wgmma each waits its turn of 128 cycles, in which the others issue at leisure; but nothing may wait for it."""
    rounds = sass.loops(code(name, arch))[0]
    op, *parts = MULTIPLY[name]
    assert sass.count(rounds, op, *parts) == sass.count(rounds, op) == ROUND[name.partition("_")[0]]
    assert purity(rounds, op, *parts) >= (0.9 if op == "HMMA" else 0.2)
    assert not waits(rounds)
    assert not sass.count(rounds, "LDG") + sass.count(rounds, "LDS") + sass.count(rounds, "STG")


@needs_nvdisasm
@each
def test_rounds_of_additions_to_shared_memory_are_counted_in_each_lane(arch: str, own_state: Path) -> None:
    """A counter in a uniform register (nvcc 13.0) never ends the loop, since each group of lanes adds 1."""
    rounds = [x for x in sass.loops(code("exchange_add_shared", arch)) if sass.count(x, "ATOMS")]
    assert rounds
    assert not any(sass.count(x, "UIADD3") for x in rounds)


@needs_nvdisasm
@each
@pytest.mark.parametrize("name", ["transpose_naive", "transpose_tiled"])
def test_a_transposition_calls_nothing(name: str, arch: str, own_state: Path) -> None:
    """A 64-bit division is a call; of whole tiles a thread's eight elements take less than 25 instructions each."""
    found = code(name, arch)
    assert sass.count(found, "CALL") == 0
    assert len(found) < 2 * 8 * 25  # the half for tiles at the edge


def copies(found: sass.Code) -> bool:
    return bool(vector_loops(found, 1, 1))


def reads(found: sass.Code) -> bool:
    return bool(vector_loops(found, 1, 0))


def activates(found: sass.Code) -> bool:
    return wide(found) == (1, 1)


def adds(found: sass.Code) -> bool:
    return purity(sass.loops(found)[0], "FFMA") >= 0.99


def multiplies(found: sass.Code) -> bool:
    return purity(sass.loops(found)[0], "HMMA") >= 0.9


BROKEN: list[tuple[str, str, str, Callable[[sass.Code], bool]]] = [
    # kernel, what is changed into what, what it is then no more
    ("stream_copy", "((float4 *)y)[i] = ((const float4 *)a)[i]", "y[4 * i] = a[4 * i]", copies),
    ("stream_read", "float4 v = ((const float4 *)a)[i]", "float4 v = make_float4(a[i], 0, 0, 0)", reads),
    ("relu_forward", "*(const float4 *)(x + i)", "make_float4(x[i], x[i + 1], x[i + 2], x[i + 3])", activates),
    ("fma_chains10", f"UNROLL = {UNROLL}", "UNROLL = 1", adds),
    ("fma_chains10", "x[c] * 0.5f + d", "__fadd_rn(x[c] * 0.5f, d)", adds),
    (
        "transpose_tiled",
        "unsigned across = (unsigned)",
        "index_t across = ",
        lambda found: sass.count(found, "CALL") == 0,
    ),
    ("mma_bf16", "UNROLL = 8", "UNROLL = 1", multiplies),
    ("mma_bf16", "#define MULTIPLY(instruction) ", "#define MULTIPLY(instruction) c[0] += 1;", multiplies),
    (
        "wgmma_bf16",
        "s++) multiply<T>(sum, of_a, of_b);",
        """s++) {
            multiply<T>(sum, of_a, of_b);
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }""",
        lambda found: not waits(sass.loops(found)[0]),
    ),
]


@needs_nvdisasm
@pytest.mark.parametrize(
    ("name", "old", "new", "holds"), BROKEN, ids=[f"{name}-{old[:30]}" for name, old, *_ in BROKEN]
)
def test_other_code_is_told(
    name: str, old: str, new: str, holds: Callable[[sass.Code], bool], own_state: Path, tmp_path: Path
) -> None:
    kernel = cases.find(name)
    arch = "sm_90" if "sm_90" in cases.archs(kernel) else cases.ALONE
    text = kernel.source.read_text()
    assert old in text and holds(sass.kernels(kernel.source, arch)[name])
    changed = tmp_path / kernel.source.name
    changed.write_text(text.replace(old, new))
    assert not holds(sass.kernels(changed, arch)[name])
