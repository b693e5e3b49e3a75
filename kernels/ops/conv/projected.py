"""Checks of large convolutions without the full reference (Freivalds 1977).

Compared are three random projections of the answer's channels, on vectors drawn after the first answer to these
inputs, and a few parts element by element. The projected float64 reference has three channels instead of hundreds."""

from __future__ import annotations

from dataclasses import replace

from kernels.lazy import np
from kernels.ops.conv import excerpts, truth
from kernels.ops.conv.shape import Shape
from kernels.problem import Array, Arrays, Evidence, once

VECTORS = 3
ENTRIES = 8  # parts that are compared in full


def compare(problem: Shape, x: Arrays, got: Arrays, u: float, probe: str) -> list[Evidence]:
    """Compare the output's projections, then some of its parts."""
    rng = np.random.default_rng()  # from the system's entropy, so that no seed and no input predicts it
    evidence = [_projections(problem, x, got, u, probe, rng)]
    if probe not in problem.planes:  # a part is too small for norms of planes
        evidence += [_part(problem, x, got, u, probe, rng) for _ in range(ENTRIES)]
    return evidence


def _projections(problem: Shape, x: Arrays, got: Arrays, u: float, probe: str, rng: np.random.Generator) -> Evidence:
    """Compare projections; the channels' errors, independent of the vectors, add as a root of squares."""
    operands = problem.operands()
    first, second, answer = (problem.plain((got if x_.role == "out" else x)[x_.name]) for x_ in operands)
    inputs = (first, second)
    vectors, want = once(x, ("projected", probe), lambda: _projected(problem, inputs, rng))
    error = np.abs(_times(vectors, answer, 1) - want)
    bound = once(x, ("projected", type(problem), probe), lambda: _allowed(problem, inputs, probe))
    return Evidence(
        operands[2].name, "freivalds", error, truth.of_factors(u, probe) * np.broadcast_to(bound, error.shape)
    )


def _channel(problem: Shape) -> tuple[int, int]:
    """Return which input has the answer's channels, and along which axis."""
    return {"forward": (1, 0), "dgrad": (1, 1), "wgrad": (0, 1)}[problem.direction]


def _projected(problem: Shape, inputs: tuple[Array, Array], rng: np.random.Generator) -> tuple[Array, Array]:
    """Return random vectors, and the true projections of the answer's channels on them."""
    which, channel = _channel(problem)
    vectors = rng.standard_normal((VECTORS, inputs[which].shape[channel]))
    both = (_times(vectors, a, channel) if i == which else a.astype(np.float64) for i, a in enumerate(inputs))
    return vectors, truth.output(_with_channels(problem, VECTORS), *both)


def _allowed(problem: Shape, inputs: tuple[Array, Array], probe: str) -> Array:
    """Return the root of the sum of squares of all channels' bounds.

    The root is exact for quadratic bounds, and not too small for the others (Minkowski)."""
    which, channel = _channel(problem)
    norms = (
        np.sqrt(np.square(a, dtype=np.float64).sum(axis=channel, keepdims=True)) if i == which else a
        for i, a in enumerate(inputs)
    )
    return truth.of_sums(_with_channels(problem, 1), probe, *norms)


def _with_channels(problem: Shape, count: int) -> Shape:
    """Return the problem with `count` output channels, in plain layout."""
    plain = replace(problem, layout="nchw")
    return replace(plain, k=count) if problem.direction == "forward" else replace(plain, c=count)


def _times(vectors: Array, a: Array, axis: int) -> Array:
    """Return the array in float64 with its axis 0 or 1 multiplied by the vectors."""
    if axis == 0:
        return np.tensordot(vectors, a, (1, 0))
    return np.stack([(vectors @ image.reshape(len(image), -1)).reshape(-1, *image.shape[1:]) for image in a])


def _part(problem: Shape, x: Arrays, got: Arrays, u: float, probe: str, rng: np.random.Generator) -> Evidence:
    """Compare a random excerpt element by element."""
    part, places = excerpts.part(problem, rng)
    arrays = {name: {**x, **got}[name][np.ix_(*at)] for name, at in places.items()}
    output = problem.outputs[0].name
    return truth.in_full(part, arrays, {output: arrays.pop(output)}, u, probe)
