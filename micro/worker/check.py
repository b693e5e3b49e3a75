"""The answer against float64, before any timing; a wrong kernel has no time.

Fresh random inputs for every probe, outputs poisoned with NaN, guard lines around every operand. A wrong
answer is told by what is wrong with it, because that is what its author needs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kernels.dtypes import BYTES, STORED, decode
from kernels.errors import LaunchError, WrongResult
from kernels.problem import Inputs
from micro.worker.evidence import Found
from micro.worker.placement import lines

if TYPE_CHECKING:
    import numpy as np

    from kernels.devices.base import Device
    from kernels.launch import Bind
    from kernels.problem import Array, Evidence, Operand, Problem
    from kernels.variant import Variant

GUARD = 4  # of the units that operands are aligned to
MARK = 0xA5  # the guards' byte
LATE = 0.3  # seconds given to an answer that was not there when its call returned
BEFORE = "before"  # a launch that is not compared


@dataclass(frozen=True, slots=True)
class Passed:
    """The worst element: its error, and what it may be."""

    error: float
    bound: float


class Bench:
    """Operands of one problem with guards around each, apart from the arenas of the measurement."""

    def __init__(self, device: Device, problem: Problem) -> None:
        self.device, self.problem = device, problem
        unit = device.kind.alignment
        sizes = [(GUARD + lines(x.nbytes, unit)) * unit for x in problem.operands()]
        self.block = device.allocate(sum(sizes) + GUARD * unit)
        self.block[:] = MARK
        offsets = [sum(sizes[:i]) + GUARD * unit for i in range(len(sizes))]
        self._places = list(zip(offsets, problem.operands(), strict=True))
        self.views = self.at(0)
        ends = [offset + x.nbytes for offset, x in self._places]
        between = zip([0, *ends], [*offsets, self.block.size], strict=True)
        self.guards = [self.block[end:start] for end, start in between]
        self.paddings = [self._padding(offset, x) for offset, x in self._places if x.pad]
        self._point()

    def _point(self) -> None:
        """Indices that may be followed, for a kernel that is launched before anything was loaded."""
        import numpy as np

        for operand, view in zip(self.problem.operands(), self.views, strict=True):
            if operand.below:
                self.device.put(view, self.problem.indices(operand, np.random.default_rng(0)))

    def at(self, shift: int) -> list[Any]:
        """The operands, or what lies so many bytes behind them, within the guards."""
        return [self.device.view(self.block, offset + shift, x) for offset, x in self._places]

    def _padding(self, offset: int, x: Operand) -> tuple[Any, Array]:
        """What lies between the rows of an operand and behind the last, and what each of its elements is."""
        row = x.shape[-1]
        between = replace(x, shape=(*x.shape[:-1], x.pad), pad=row)
        return self.device.view(self.block, offset + row * BYTES[x.dtype], between), _marked(x.dtype)

    def load(self, x: dict[str, Array]) -> None:
        """Put the inputs; poison the outputs."""
        import numpy as np

        for operand, view in zip(self.problem.operands(), self.views, strict=True):
            self.device.put(view, x[operand.name] if operand.role != "out" else np.full(1, np.nan, "f4"))

    def answer(self) -> dict[str, Array]:
        """The outputs, on the host, by name."""
        self.device.sync()
        written = zip(self.problem.operands(), self.views, strict=True)
        return {operand.name: self.device.get(view) for operand, view in written if operand.role != "in"}

    def refuse_strays(self, x: dict[str, Array]) -> None:
        """Raise where the kernel wrote to its inputs or beyond its operands."""
        import numpy as np

        kept = [(guard == MARK).all() for guard in self.guards]
        kept += [(self.device.get(padding) == marked).all() for padding, marked in self.paddings]
        if not all(kept):
            raise WrongResult("writes outside its operands")
        for operand, view in zip(self.problem.operands(), self.views, strict=True):
            if operand.role == "in" and not np.array_equal(self.device.get(view), x[operand.name]):
                raise WrongResult(f"changes its input {operand.name}")


def _marked(dtype: str) -> Array:
    """An element all of whose bytes are MARK."""
    import numpy as np

    return decode(np.full(BYTES[dtype], MARK, np.uint8).view(STORED[dtype]))


@dataclass
class Drawn:
    """A problem's probes, drawn when they are asked for and then kept: rivals on a device whose references take longer
    than its launches are checked on the same inputs."""

    problem: Problem
    seed: int
    probes: dict[str, Inputs] = field(default_factory=dict)

    def __call__(self, probe: str) -> Inputs:
        import numpy as np

        if probe not in self.probes:
            rng = np.random.default_rng((self.seed, len(self.probes)))
            self.probes[probe] = Inputs(self.problem.fill(rng, probe))
        return self.probes[probe]


def check(
    device: Device, problem: Problem, variant: Variant[Any], bind: Bind, seed: int, drawn: Drawn | None = None
) -> tuple[Passed, float]:
    """Launch once for each probe, on fresh inputs by the seed or on what is `drawn`, and compare; also seconds of the
    last launch.

    Raises WrongResult with the way in which it is wrong.
    """
    import numpy as np

    bench = Bench(device, problem)
    bind(bench.at(device.kind.alignment))  # a kernel that keeps to the first operands it was given answers there
    launch = bind(bench.views)
    took = 0.0

    def call() -> None:
        nonlocal took
        start = time.perf_counter()
        launch.call()
        device.sync()
        took = time.perf_counter() - start

    # One probe alone would let an answer pass that is kept from the first launch.
    probes = problem.probes if len(problem.probes) > 1 else (BEFORE, *problem.probes)
    passed = judge(bench, call, variant, np.random.default_rng(seed), probes, drawn)
    return passed, took


def judge(
    bench: Bench,
    call: Callable[[], object],
    variant: Variant[Any],
    rng: np.random.Generator,
    probes: Any,
    drawn: Drawn | None = None,
) -> Passed:
    """The probes one after another through one bound call."""
    import numpy as np

    worst = Passed(0.0, np.inf)
    earlier: dict[str, Array] = {}
    kept: dict[str, Array] = {}
    for probe in probes:
        shared = drawn is not None and not variant.constant
        x: dict[str, Array] = drawn(probe) if drawn and shared else bench.problem.fill(rng, probe) | kept
        kept = {name: x[name] for name in variant.constant}
        bench.load(x)
        call()
        got = bench.answer()
        if probe != BEFORE:
            worst = _compared(bench, variant, probe, (x, got, earlier), worst)
            bench.refuse_strays(x)
        earlier = got
    return worst


def _compared(
    bench: Bench,
    variant: Variant[Any],
    probe: str,
    launch: tuple[dict[str, Array], dict[str, Array], dict[str, Array]],
    worst: Passed,
) -> Passed:
    """The worse of what is known and of every output of a launch: its inputs, its answer, the answer before it."""
    x, got, earlier = launch
    compared = bench.problem.compare(x, got, variant.u(bench.problem), probe)
    if unseen := got.keys() - {evidence.operand for evidence in compared}:
        raise LaunchError(f"the check of {bench.problem.op} says nothing of {', '.join(sorted(unseen))}")
    for evidence in compared:
        try:
            worst = _weigh(bench, x, got, evidence, earlier, worst)
        except WrongResult as error:
            error.found = Found(probe, x, got, evidence)
            raise
    return worst


def _weigh(
    bench: Bench,
    x: dict[str, Array],
    got: dict[str, Array],
    evidence: Evidence,
    earlier: dict[str, Array],
    worst: Passed,
) -> Passed:
    """The worse of what is known and this comparison, relative to what is allowed."""
    import numpy as np

    fits = evidence.error <= evidence.bound  # NaN does not fit
    if not fits.all():
        raise WrongResult(explain(bench, x, got, evidence, earlier))
    share = np.divide(evidence.error, evidence.bound, out=evidence.error, where=evidence.bound > 0)
    at = np.unravel_index(np.argmax(share), share.shape)
    bound = float(evidence.bound[at])
    here = Passed(float(share[at]) * bound, bound)
    known = worst.bound not in (0.0, np.inf)  # an output that may not err hides none that may
    return worst if known and here.error * worst.bound <= worst.error * here.bound else here


def explain(
    bench: Bench, x: dict[str, Array], got: dict[str, Array], evidence: Evidence, earlier: dict[str, Array]
) -> str:
    """In which way an output is wrong, the most telling way first; with its name where there are several."""
    name = evidence.operand
    reason = _explain(bench, x, got[name], evidence, earlier.get(name))
    return f"{name}: {reason}" if len(bench.problem.outputs) > 1 else reason


def _explain(bench: Bench, x: dict[str, Array], got: Array, evidence: Evidence, earlier: Array | None) -> str:
    import numpy as np

    name, bad = evidence.operand, ~(evidence.error <= evidence.bound)  # NaN is bad too
    if reason := _unwritten(bench, x, name, got, bad):
        return reason
    if np.isnan(got).any():
        return f"not a number at {_first(np.isnan(got))}"
    if np.isinf(got).any():
        return f"infinite at {_first(np.isinf(got))}"
    if not got.any():
        return "answers zeros"
    if earlier is not None and np.array_equal(got, earlier):
        return "repeats its answer to earlier inputs"
    if evidence.test in bench.problem.probes:
        pattern = _shape_of_error(bench.problem.reference(x)[name], got, evidence.bound)
        if pattern:
            return pattern
    with np.errstate(over="ignore"):  # a bound of zero
        worst = float(np.max(evidence.error / np.maximum(evidence.bound, np.finfo(np.float64).tiny)))
    return (
        f"{evidence.test} probe: {bad.sum()} of {bad.size} values off by up to {worst:.3g} times "
        f"what its precision allows, first at {_first(bad)}"
    )


def _unwritten(bench: Bench, x: dict[str, Array], name: str, got: Array, bad: Array) -> str | None:
    """What was not written that should have been: an old value may be the right one."""
    untouched = _untouched(x, name, got)
    empty = untouched & bad if bad.shape == got.shape else untouched
    if not empty.any():
        return None
    time.sleep(LATE)
    if _untouched(x, name, bench.answer()[name]).sum() < untouched.sum():
        return "returns before it is done: its output was still being written"
    if untouched.all():
        return "writes nothing: every output is as it was"
    return f"leaves {empty.sum()} of {got.size} outputs unwritten, first at {_first(empty)}"


def _untouched(x: dict[str, Array], name: str, got: Array) -> Array:
    """Which elements of an output are as they were before the launch: poisoned, or the old values."""
    import numpy as np

    empty: Array = np.isnan(got) if name not in x else got == x[name]
    return empty


def _shape_of_error(want: Array, got: Array, bound: Array) -> str | None:
    """Two axes exchanged, as of a matrix or of images in another layout; or off by a factor."""
    import numpy as np

    for i, j in itertools.combinations(range(got.ndim), 2):
        if got.shape[i] == got.shape[j] and (np.abs(got.swapaxes(i, j) - want) <= bound).all():
            matrix = got.ndim == 2
            return "answers the transposed result" if matrix else f"answers with axes {i} and {j} exchanged"
    scale = float((got * want).sum() / max(float((want * want).sum()), 1e-300))
    if abs(scale - 1) > 1e-3 and (np.abs(got - scale * want) <= 2 * max(abs(scale), 1) * bound).all():
        return f"off by the factor {scale:.4g}: a scale like alpha is lost or doubled"
    return None


def _first(mask: Array) -> list[int]:
    import numpy as np

    return [int(i) for i in np.argwhere(mask)[0]]
