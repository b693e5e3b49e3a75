"""Launches of a CUDA file's kernels, described by Geometry objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernels.launch import Bind, Launch, held
from kernels.lazy import np
from kernels.nvcc import Argument, Geometry
from kernels.problem import Problem


def prepared(source: Path, launches: Callable[[Any, Any], Sequence[Geometry]]) -> Callable[[Any, Any, object], Bind]:
    """Return a variant's `prepare` for the launches that `launches(problem, device)` returns, in order."""

    def prepare(problem: Problem, device: Any, setting: object) -> Bind:
        return bound(source, launches(problem, device), [x.name for x in problem.operands()], device)

    return prepare


def solving(
    source: Path, launches: Callable[[Any, str], Sequence[Geometry]], kernel: Callable[[Any], str]
) -> Callable[[Any, Any, object], Bind]:
    """Return a variant's `prepare` for `launches(problem, name)`; `kernel(problem)` returns the name."""
    return prepared(source, lambda problem, device: launches(problem, kernel(problem)))


def bound(source: Path, geometries: Sequence[Geometry], names: Sequence[str], device: Any) -> Bind:
    """Return a function that binds the launches to buffers in the order of `names`. Raises BuildError."""
    size = max((x[1] for g in geometries for x in g.arguments if x[0] == "workspace"), default=0)
    workspace = device.allocate(int(size)) if size else None
    for geometry in geometries:
        device.function(source, geometry.kernel, geometry.arch)  # compiles before the bind

    def bind(buffers: Sequence[Any]) -> Launch:
        places = {name: int(buffer.data.ptr) for name, buffer in zip(names, buffers, strict=True)}
        if workspace is not None:
            places["workspace"] = int(workspace.data.ptr)
        run = calls(source, geometries, places, device)
        return held(run, (workspace, *buffers), workspace=int(size), capturable=True, kernels=len(geometries))

    return bind


def calls(source: Path, geometries: Sequence[Geometry], places: Mapping[str, int], device: Any) -> Callable[[], None]:
    """Return a function that makes all launches; `places`: addresses of operands and of "workspace"."""
    ready = [
        (
            device.function(source, x.kernel, x.arch),
            x.grid,
            x.block,
            tuple(_passed(y, places) for y in x.arguments),
            x.shared,
        )
        for x in geometries
    ]

    def call() -> None:
        for function, blocks, threads, arguments, shared in ready:
            function(blocks, threads, arguments, shared_mem=shared)

    return call


def _passed(argument: Argument, places: Mapping[str, int]) -> Any:
    """Return an argument for CuPy: a NumPy scalar of exactly the kernel parameter's type."""
    kind, value = argument
    if kind == "operand":
        return np.uint64(places[str(value)])
    if kind == "workspace":
        return np.uint64(places["workspace"])
    return np.float32(value) if kind == "float32" else np.int64(value)
