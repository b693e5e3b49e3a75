"""Every CUDA kernel of the suite, run on the CPU, against float64."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kernels.ops.fma import Fma
from kernels.ops.gemm import Gemm
from kernels.ops.stream import Stream
from tests.simulated import cases, launcher
from tests.simulated.cases import HOW, changed

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
ROOT = cases.gemm.SOURCE.parents[3]
SHAPES = [(1, 1, 1), (33, 65, 17), (70, 129, 45)]
FACTORS = [(1.0, 0.0), (-0.7, 2.5), (0.0, 1.0)]
LAYOUTS = ["nn", "nt", "tn", "tt"]


def test_every_kernel_is_tried() -> None:
    sources = sorted((ROOT / "kernels").rglob("*.cu"))
    assert {name for path in sources for name in launcher.names(path.read_text())} == set(cases.NAMES)
    assert sum(path.read_text().count("__global__") for path in sources) == len(cases.NAMES)


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("kernel", cases.KERNELS, ids=lambda kernel: kernel.name)
def test_kernel_at_three_odd_shapes(kernel: cases.Kernel, how: dict[str, Any]) -> None:
    for problem in kernel.problems:
        assert cases.run(kernel, problem, **how).allowed, problem.name


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", cases.gemm.TILES)
def test_product_in_every_layout(name: str, shape: tuple[int, int, int]) -> None:
    for trans, (alpha, beta), pad in itertools.product(LAYOUTS, FACTORS, (0, 3)):
        problem = Gemm(*shape, trans, alpha=alpha, beta=beta, ld_pad=pad)
        assert cases.run(cases.find(name), problem).allowed, problem.name


@pytest.mark.parametrize("count", [*range(16, 24), 255, 1024, 8191, 8192, 8193])
@pytest.mark.parametrize("kind", ["read", "copy", "triad"])
def test_stream_at_the_edges(kind: str, count: int) -> None:
    for how in HOW:
        assert cases.run(cases.find(f"stream_{kind}"), Stream(kind, 4 * count), **how).allowed


@pytest.mark.parametrize("steps", [*range(1, 9), 15, 16, 17])
def test_fma_takes_as_many_steps_as_are_asked(steps: int) -> None:
    """In rounds of four: twenty steps are all that shows, x being as good as 2d after them."""
    assert cases.run(cases.find("fma_chains10"), Fma("cuda", steps, processors=2), short_rounds()).allowed


def short_rounds() -> str:
    return changed(cases.fma.CUDA_SOURCE.read_text(), "step", "UNROLL = 64", "UNROLL = 4", 0)


def test_unaligned_floats_are_not_read_as_float4() -> None:
    text = cases.stream.CUDA_SOURCE.read_text().replace("where % sizeof(float4) ? 0 : count / 4", "count / 4")
    problem = Stream("copy", 4 * 1027)
    assert cases.run(cases.find("stream_copy"), problem, text, align=16).allowed
    with pytest.raises(launcher.LaunchFailed, match="misaligned"):
        cases.run(cases.find("stream_copy"), problem, text, align=4)
