"""Convolutions on a GPU by cuFFT's transforms of whole images and cuBLAS's products by frequency.

kernels/ops/conv/fft.py explains the method. One transform of the filter serves one use, or several."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import grid
from kernels.launch import Bind, Launch, in_turn
from kernels.libs import cublas, cufft
from kernels.nvcc import Geometry, over
from kernels.ops.conv import fft
from kernels.ops.conv.columns import refuse_room
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.cublas import addresses
from kernels.problem import Work
from kernels.setting import Setting

SOURCE = Path(__file__).with_name("frames.cu")
KERNELS = ("frames_of", "frames_back")
THREADS = 256
Step = Callable[[], object]


def planes(problem: Conv, letter: str) -> tuple[int, int, int]:
    """Return an operand's number of planes, and their rows and columns."""
    down, across = (line.outputs for line in problem.lines)
    sizes = {"x": (problem.h, problem.w), "w": (problem.r, problem.s), "y": (down, across)}
    return (fft.planes(problem)[letter], *sizes[letter])


def geometry(problem: Conv, name: str, letter: str, places: tuple[str, str]) -> Geometry:
    """Return a launch over an operand's planes; `places`: names of source and target."""
    count, rows, cols = planes(problem, letter)
    down, across = fft.lengths(problem)
    step = problem.dilation if letter == "w" else 1
    back = name == "frames_back"
    blocks = -(-(rows * cols if back else down * across) // THREADS)
    numbers: tuple[float, ...] = (blocks, rows, cols, down, across, step)
    if back:
        sign = 1 if letter == "x" else -1  # a gradient of images stands behind the padding, all else before
        numbers = (1.0 / (down * across), *numbers, sign * problem.pad_top, sign * problem.pad_left)
    return over(name, count * blocks, THREADS, places, *numbers)


@dataclass(frozen=True)
class FramePlan:
    """Memory and plans of one problem: frames that all operands share in turn, and each operand's spectra."""

    problem: Conv
    device: Any
    on: cublas.Handle
    frames: Any
    spectra: Mapping[str, Any]
    area: Any  # workspace that all plans share
    plans: Mapping[str, cufft.Plan]

    @property
    def workspace(self) -> int:
        blocks = (self.frames, *self.spectra.values(), self.area)
        return cublas.WORKSPACE + sum(int(x.nbytes) for x in blocks)


def make(problem: Conv, device: Any, setting: Setting) -> FramePlan:
    """Allocate the memory of a problem and plan its transforms. Raises Unavailable."""
    lengths, counts = fft.lengths(problem), fft.planes(problem)
    *_, output = problem.letters
    stream = device.stream.ptr
    plans = {name: cufft.plan(lengths, count, name == output, stream) for name, count in counts.items()}
    framed, nbytes = 4 * max(counts.values()) * lengths[0] * lengths[1], max(x.nbytes for x in plans.values())
    refuse_room(device, setting, cublas.WORKSPACE + framed + fft.spectra_bytes(problem) + nbytes)
    for name in KERNELS:
        device.function(SOURCE, name)  # compiles before the bind
    frames = device.allocate(framed)
    spectra = {name: device.allocate(8 * fft.frequencies(problem) * count) for name, count in counts.items()}
    area = device.allocate(nbytes)
    for transform_plan in plans.values():
        transform_plan.work_in(int(area.data.ptr))
    return FramePlan(problem, device, device.blas(), frames, spectra, area, plans)


def steps(plan: FramePlan, at: Mapping[str, int], uses: int = 1) -> list[Step]:
    """Return the steps of a call with `uses` uses of a filter transform; `at`: addresses by letter."""
    *inputs, output = plan.problem.letters
    filters = transform(plan, "w", at["w"]) if "w" in inputs else []
    others = [step for name in inputs if name != "w" for step in transform(plan, name, at[name])]
    return [*filters, *[*others, products(plan), *inverse(plan, output, at[output])] * uses]


def transform(plan: FramePlan, name: str, place: int) -> list[Step]:
    frames, spectra = int(plan.frames.data.ptr), int(plan.spectra[name].data.ptr)
    launch = geometry(plan.problem, "frames_of", name, ("planes", "frames"))
    framed = grid.calls(SOURCE, (launch,), {"planes": place, "frames": frames}, plan.device)
    return [framed, plan.plans[name].call(frames, spectra)]


def inverse(plan: FramePlan, name: str, place: int) -> list[Step]:
    frames, spectra = int(plan.frames.data.ptr), int(plan.spectra[name].data.ptr)
    launch = geometry(plan.problem, "frames_back", name, ("frames", "planes"))
    unframed = grid.calls(SOURCE, (launch,), {"planes": place, "frames": frames}, plan.device)
    return [plan.plans[name].call(spectra, frames), unframed]


def products(plan: FramePlan) -> Step:
    """Return Y = X Wᴴ, X = Y W or W = Yᴴ X, with matrices n × c, k × c, n × k for each frequency."""
    p, count = plan.problem, fft.frequencies(plan.problem)
    x, w, y = (
        (int(plan.spectra[name].data.ptr), ld, fft.planes(p)[name]) for name, ld in (("x", p.c), ("w", p.c), ("y", p.k))
    )
    flags, sizes, a, b, c = {
        "forward": ((cublas.C, cublas.N), (p.k, p.n, p.c), w, x, y),
        "dgrad": ((cublas.N, cublas.N), (p.c, p.n, p.k), w, y, x),
        "wgrad": ((cublas.N, cublas.C), (p.c, p.k, p.n), x, y, w),
    }[p.direction]
    return cublas.batched(plan.on, "complex", flags, sizes, (1.0, 0.0), a, b, c, count)


def prepare(problem: Conv, device: Any, setting: Setting, *, uses: int = 1) -> Bind:
    """Prepare a call in which one transform of the filter serves `uses` convolutions."""
    plan = make(problem, device, setting)

    def bind(buffers: Sequence[Any]) -> Launch:
        ready = steps(plan, problem.by_letter(addresses(buffers)), uses)
        call = in_turn(ready, (plan, *buffers))
        return Launch(call, uses=uses, workspace=plan.workspace, capturable=True, kernels=cufft.KERNELS * len(ready))

    return bind


def work(problem: Conv, *, uses: int = 1) -> Work:
    """Return the work of one use, with its share of the filter's transform."""
    kept, full = fft.work(problem, kept=True), fft.work(problem)
    return Work(kept.flops + (full.flops - kept.flops) / uses, full.bytes)
