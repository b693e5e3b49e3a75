"""Convolutions on a GPU as cuBLAS products of each image and group, around the columns of columns.cu."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernels import grid
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch, in_order
from kernels.libs import cublas
from kernels.nvcc import Geometry, over
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.cublas import addresses
from kernels.setting import Setting

SOURCE = Path(__file__).with_name("columns.cu")
KERNELS = ("columns_of", "columns_back")
THREADS = 256
Step = Callable[[], object]


def geometry(problem: Conv, name: str, images: int, places: tuple[str, str] = ("x", "columns")) -> Geometry:
    """Return the launch of kernel `name` over `images` images; `places` name its source and target."""
    down, across = (line.outputs for line in problem.lines)
    back = name == "columns_back"
    planes = images * problem.c
    blocks = -(-(problem.h * problem.w if back else down * across) // THREADS)
    lines = planes if back else planes * problem.r * problem.s
    sizes = (blocks, problem.h, problem.w, problem.r, problem.s, problem.stride, problem.pad_top, problem.pad_left)
    return over(name, lines * blocks, THREADS, places, *sizes, problem.dilation, down, across)


def column_bytes(problem: Conv) -> int:
    """Return the bytes of the columns of one image, all groups included."""
    return 4 * problem.c * problem.r * problem.s * problem.outputs_of_image


def refuse_room(device: Any, setting: Setting, nbytes: int) -> None:
    """Raise Unavailable if `nbytes` exceed the workspace limit or, without a limit, half the free memory."""
    if setting.workspace is not None and nbytes > setting.workspace:
        raise Unavailable(f"needs {nbytes} bytes of workspace: --workspace {nbytes}")
    if nbytes > device.limits().memory // 2:
        raise Unavailable(f"needs {nbytes / 2**30:.1f} GiB of workspace: use a smaller --n")


def accepts(problem: Conv) -> str | None:
    """Return why the columns cannot hold a problem's layout, or None if they can."""
    return "its im2col requires --layout nchw" if problem.layout != "nchw" else None


def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
    """Prepare columns of as many images at a time as the workspace limit allows beside cuBLAS's workspace.

    Without a limit the columns take at most a quarter of the free memory."""
    on, each, limit = device.blas(), column_bytes(problem), setting.workspace
    room = device.limits().memory // 4 if limit is None else limit - cublas.WORKSPACE
    at_once = min(problem.n, room // each)
    if at_once < 1:
        raise Unavailable(f"the workspace is too small for one image's columns: --workspace {each + cublas.WORKSPACE}")
    for name in KERNELS:
        device.function(SOURCE, name)  # compiles before the bind
    columns = device.allocate(at_once * each)

    def bind(buffers: Sequence[Any]) -> Launch:
        at = {**problem.by_letter(addresses(buffers)), "columns": int(columns.data.ptr)}
        steps = [
            step
            for first in range(0, problem.n, at_once)
            for step in _steps(problem, device, on, at, (first, min(at_once, problem.n - first)))
        ]
        return in_order(steps, (columns, *buffers), cublas.KERNELS, cublas.WORKSPACE + at_once * each, capturable=True)

    return bind


def _steps(
    problem: Conv, device: Any, on: cublas.Handle, at: Mapping[str, int], images: tuple[int, int]
) -> Iterator[Step]:
    """Yield the columns and products of `images`, given as the first image and their number."""
    first, count = images
    pixels, results = problem.c * problem.h * problem.w, problem.k * problem.outputs_of_image
    here = {**at, "x": at["x"] + 4 * first * pixels, "y": at["y"] + 4 * first * results}
    if problem.direction == "dgrad":
        yield from _products(problem, on, here, count)
        yield grid.calls(SOURCE, (geometry(problem, "columns_back", count, ("columns", "x")),), here, device)
        return
    yield grid.calls(SOURCE, (geometry(problem, "columns_of", count),), here, device)
    if problem.direction == "forward":
        yield from _products(problem, on, here, count)
    else:
        yield from _summed(problem, on, here, images)


def _products(problem: Conv, on: cublas.Handle, at: Mapping[str, int], count: int) -> Iterator[Step]:
    """Yield y = w · columns, or columns = wᵀ · dy, of each image and group, batched over the larger count."""
    g, p = problem.groups, problem.outputs_of_image
    k, d = problem.k // g, problem.c // g * problem.r * problem.s
    steps = {"w": (0, k * d), "columns": (g * d * p, d * p), "y": (g * k * p, k * p)}  # by image, by group
    along, loop = (0, g) if count >= g else (1, count)
    for i in range(loop):
        w, columns, y = (
            (at[name] + 4 * i * steps[name][1 - along], ld, steps[name][along])
            for name, ld in (("w", d), ("columns", p), ("y", p))
        )
        batch = count if along == 0 else g
        if problem.direction == "forward":
            yield cublas.batched(on, "real", (cublas.N, cublas.N), (p, k, d), (1.0, 0.0), columns, w, y, batch)
        else:
            yield cublas.batched(on, "real", (cublas.N, cublas.T), (p, d, k), (1.0, 0.0), y, w, columns, batch)


def _summed(problem: Conv, on: cublas.Handle, at: Mapping[str, int], images: tuple[int, int]) -> Iterator[Step]:
    """Yield dw += dy · columnsᵀ for each image, batched over the groups; the first image overwrites dw."""
    g, p = problem.groups, problem.outputs_of_image
    k, d = problem.k // g, problem.c // g * problem.r * problem.s
    for i in range(images[1]):
        columns = at["columns"] + 4 * i * g * d * p, p, d * p
        dy = at["y"] + 4 * i * g * k * p, p, k * p
        factors = (1.0, 0.0 if images[0] + i == 0 else 1.0)
        yield cublas.batched(on, "real", (cublas.T, cublas.N), (d, k, p), factors, columns, dy, (at["w"], d, k * d), g)
