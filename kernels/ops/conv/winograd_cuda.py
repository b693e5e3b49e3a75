"""Winograd's convolutions on a GPU: winograd.cu's transforms around a cuBLAS product per tile element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernels import grid
from kernels.launch import Bind, Launch, in_turn
from kernels.libs import cublas
from kernels.nvcc import Geometry, over
from kernels.ops.conv.columns import refuse_room
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.winograd import Tiling
from kernels.ops.gemm.cublas import addresses
from kernels.setting import Setting

SOURCE = Path(__file__).with_name("winograd.cu")
TILES = (2, 4)  # outputs of a tile, down and across
STAGES = ("image", "gradient", "result", "filter", "dfilter")
KERNELS = tuple(f"winograd{m}_{stage}" for m in TILES for stage in STAGES)
THREADS = 256
Step = Callable[[], object]


def geometry(problem: Conv, name: str, places: tuple[str, str]) -> Geometry:
    """Return the launch of kernel `name`, one stage of a pass; `places` name its source and target."""
    m, stage = int(name.removeprefix("winograd").partition("_")[0]), name.partition("_")[2]
    numbers = _of_filters(problem, stage) if stage.endswith("filter") else _of_tiles(problem, stage, m)
    threads = numbers[0] * (numbers[-2] * numbers[-1] if not stage.endswith("filter") else numbers[1])
    return over(name, -(-threads // THREADS), THREADS, places, *numbers)


def _of_filters(problem: Conv, stage: str) -> tuple[int, ...]:
    """Return k, c and, for the filter's transform, whether filters are flipped."""
    turned = (int(problem.direction == "dgrad"),) if stage == "filter" else ()
    return (problem.k, problem.c, *turned)


def _of_tiles(problem: Conv, stage: str, m: int) -> tuple[int, ...]:
    """Return planes, channels, their rows and columns, padding, tiles down and across."""
    tiling = Tiling(problem, m)
    image = stage == "image"
    channels, (h, w) = (tiling.read, tiling.sizes[0]) if image else (tiling.written, tiling.sizes[1])
    return (problem.n * channels, channels, h, w, *tiling.before, tiling.down, tiling.across)


def prepare(problem: Conv, device: Any, setting: Setting, *, m: int) -> Bind:
    """Prepare F(m, 3) with the tiles of all images transformed at once."""
    on = device.blas()
    for name in KERNELS:
        device.function(SOURCE, name)  # compiles before the bind
    tiling = Tiling(problem, m)
    places, count = tiling.products, problem.n * tiling.down * tiling.across
    sizes = {"v": problem.c * count, "m": problem.k * count, "u": problem.k * problem.c}
    nbytes = 4 * places * sum(sizes.values())
    refuse_room(device, setting, cublas.WORKSPACE + nbytes)
    blocks = {name: device.allocate(4 * places * size) for name, size in sizes.items()}

    def bind(buffers: Sequence[Any]) -> Launch:
        at = problem.by_letter(addresses(buffers))
        at |= {name.upper(): int(block.data.ptr) for name, block in blocks.items()}
        steps = _steps(problem, device, on, at, m)
        call = in_turn(steps, (blocks, *buffers))
        workspace, kernels = cublas.WORKSPACE + nbytes, cublas.KERNELS + len(steps)
        return Launch(call, workspace=workspace, capturable=True, kernels=kernels)

    return bind


def _steps(problem: Conv, device: Any, on: cublas.Handle, at: Mapping[str, int], m: int) -> list[Step]:
    """Return the steps of a pass; V holds the tiles of x and M those of y, so that dgrad writes V."""

    def launch(stage: str, source: str, target: str) -> Step:
        stage_geometry = geometry(problem, f"winograd{m}_{stage}", (source, target))
        return grid.calls(SOURCE, (stage_geometry,), at, device)

    tiling = Tiling(problem, m)
    places, t, k, c = tiling.products, problem.n * tiling.down * tiling.across, problem.k, problem.c
    v, tiles_of, u = (at["V"], t, c * t), (at["M"], t, k * t), (at["U"], c, k * c)
    none, plain = (cublas.N, cublas.N), (1.0, 0.0)
    if problem.direction == "wgrad":
        product = cublas.batched(on, "real", (cublas.T, cublas.N), (c, k, t), plain, v, tiles_of, u, places)
        transforms = [launch("image", "x", "V"), launch("gradient", "y", "M")]
        return [*transforms, product, launch("dfilter", "U", "w")]
    if problem.direction == "forward":
        product = cublas.batched(on, "real", none, (t, k, c), plain, v, u, tiles_of, places)
        return [launch("image", "x", "V"), launch("filter", "w", "U"), product, launch("result", "M", "y")]
    turned = (at["U"], k, k * c)
    product = cublas.batched(on, "real", none, (t, c, k), plain, tiles_of, turned, v, places)
    return [launch("image", "y", "M"), launch("filter", "w", "U"), product, launch("result", "V", "x")]
