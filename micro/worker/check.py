"""The check of answers against float64, before any timing; a wrong kernel has no time.

Every probe has fresh random inputs, outputs poisoned with NaN, guards of NaN around every operand, and in some calls
unreadable pages. The message for a wrong answer describes the error, for the kernel's author."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernels.dtypes import DATA
from kernels.errors import LaunchError, WrongResult
from kernels.problem import GRADED, SPECIAL
from micro.worker import guards, process_state
from micro.worker.evidence import Found, how_far
from micro.worker.guards import Bench, Fenced
from micro.worker.turns import Drawn, Turn, another, moved, swapped, turns

if TYPE_CHECKING:
    import numpy as np

    from kernels.devices.base import Device
    from kernels.launch import Bind
    from kernels.problem import Array, Evidence, Problem
    from kernels.variant import Variant

LATE = 0.3  # seconds to wait for an answer missing when its call returned


@dataclass(frozen=True, slots=True)
class Passed:
    """The worst element: its error and its bound."""

    error: float
    bound: float


@dataclass(frozen=True, slots=True)
class Asked:
    """Inputs of a check beside the probes."""

    drawn: Drawn | None = None  # shared by all rivals
    data: str = "normal"  # that is timed
    cell: int = 0  # address of the cell that names what is under way, for a crash at a fence; 0: no watcher


@dataclass(frozen=True)
class Place:
    """A kernel bound to operands."""

    bench: Bench
    call: Callable[[], object]


@dataclass(frozen=True)
class Answer:
    """Inputs and outputs of one call."""

    x: dict[str, Array]
    before: dict[str, Array]  # inputs before an element of each was changed
    got: dict[str, Array]
    earlier: dict[str, Array]  # outputs of the call before


def check(
    device: Device, problem: Problem, variant: Variant[Any], bind: Bind, seed: int, asked: Asked | None = None
) -> tuple[Passed, float]:
    """Make the calls of `turns` and compare; return the worst error and the seconds of a launch.

    Inputs are drawn by the seed, or given. The seconds are of the last launch on operands side by side. Raises
    WrongResult with a description of the error."""
    import numpy as np

    asked = asked or Asked()
    bench = Bench(device, problem)
    bind(bench.at(device.kind.alignment))  # a kernel that caches its first operands' addresses answers there
    took = [0.0]
    places = {"guarded": Place(bench, _timed(device, bind(bench.views).call, took))}
    fenced = guards.fits(device, problem)
    stretches = [guards.Stretch(x.nbytes) for x in problem.operands()] if fenced else []
    if fenced:
        for name in ("end", "start"):
            beside = Fenced(device, problem, stretches, behind=name == "end")
            places[name] = Place(beside, bind(beside.views).call)
    passed = Passed(0.0, np.inf)
    with unchanged(), guards.watched(stretches, asked.cell):
        all_turns = turns(problem, variant, asked.data, fenced)
        passed = judge(places, variant, np.random.default_rng(seed), all_turns, asked.drawn)
    return passed, took[0]


def _timed(device: Device, call: Callable[[], object], took: list[float]) -> Callable[[], None]:
    def run() -> None:
        start = time.perf_counter()
        call()
        device.sync()
        took[0] = time.perf_counter() - start

    return run


def judge(
    places: Mapping[str, Place],
    variant: Variant[Any],
    rng: np.random.Generator,
    all_turns: Sequence[Turn],
    drawn: Drawn | None = None,
) -> Passed:
    """Make the calls one after another, and compare.

    Raises LeftChanged if a call leaves floating point or cores changed, which would affect the next."""
    import numpy as np

    inputs = _Inputs(places["guarded"].bench.problem, variant, rng, drawn)
    worst = Passed(0.0, np.inf)
    earlier: dict[str, Array] = {}
    for turn in all_turns:
        place = places[turn.place]
        x, before = inputs.of(turn)
        if turn.before:
            with swapped(x, another(place.bench.problem, x, variant.constant, rng)):
                got = _called(place, turn, x)
        else:
            got = _called(place, turn, x)
        if turn.judged:
            worst = _compared(place, variant, turn.probe, Answer(x, before, got, earlier), worst)
            place.bench.refuse_strays(x)
        earlier = got
    return worst


class _Inputs:
    """Inputs of one check by probe, with alike constants; a changed input replaces its probe's."""

    def __init__(self, problem: Problem, variant: Variant[Any], rng: np.random.Generator, drawn: Drawn | None) -> None:
        self._problem, self._variant, self._rng = problem, variant, rng
        self._drawn = drawn if drawn and drawn.constant == variant.constant else None
        self._known: dict[str, dict[str, Array]] = {}
        self._kept: dict[str, Array] = {}

    def of(self, turn: Turn) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the inputs of a call, and those before a change, if there is one."""
        if turn.probe not in self._known:
            self._known[turn.probe] = x = self._fresh(turn.probe)
            self._kept = {name: x[name] for name in self._variant.constant}
        x = self._known[turn.probe]
        if not turn.changed or turn.before:
            return x, {}
        changed = moved(x, another(self._problem, x, self._variant.constant, self._rng))
        self._known[turn.probe] = changed
        return changed, x

    def _fresh(self, probe: str) -> dict[str, Array]:
        if probe == SPECIAL:  # derived from existing inputs, as drawing costs more than a call
            return self._problem.specialized(next(iter(self._known.values())), self._rng) | self._kept
        return self._drawn(probe) if self._drawn else self._problem.fill(self._rng, probe) | self._kept


def _called(place: Place, turn: Turn, x: dict[str, Array]) -> dict[str, Array]:
    """Return the answer to these inputs; raise LeftChanged if the kernel changes its process."""
    import numpy as np

    bench = place.bench
    if turn.place != "guarded":  # the other end of these pages was written since
        bench.mark()
    bench.load(x)
    before = process_state.of_thread()
    with np.errstate(all="ignore" if turn.probe == SPECIAL else None):
        place.call()
        got = bench.answer()
    if before != process_state.of_thread():
        raise LeftChanged
    return got


class LeftChanged(Exception):
    """Floating point or cores of a thread were changed by a call."""


@contextmanager
def unchanged() -> Iterator[None]:
    """Raise WrongResult if the process has changed, after restoring it for the rivals.

    Cores that no call changed were changed by others, for good."""
    before, by_call = process_state.take(), False
    try:
        yield
    except LeftChanged:  # no later call is judged by that
        by_call = True
    finally:
        after = process_state.take()
        before = before if by_call else replace(before, cores=after.cores)
        process_state.restore(before)
    if changes := process_state.state_changes(before, after):
        raise WrongResult("; ".join(changes))


def _compared(place: Place, variant: Variant[Any], probe: str, answer: Answer, worst: Passed) -> Passed:
    """Return the worse of the known error and those of every output of a call."""
    bench, u = place.bench, variant.u(place.bench.problem)
    judged = variant.judged(bench.problem)
    compared = judged.compare(answer.x, answer.got, u, probe)
    if unseen := answer.got.keys() - {evidence.operand for evidence in compared}:
        raise LaunchError(f"the check of {bench.problem.op} says nothing of {', '.join(sorted(unseen))}")
    for evidence in compared:
        try:
            worst = _weigh(place, answer, evidence, worst)
        except WrongResult as error:
            refused = WrongResult(_of_copies(judged, answer, evidence, u) or str(error))
            refused.evidence = Found(probe, answer.x, answer.got, evidence)
            raise refused from None
    return worst


def _of_beyond(place: Place, answer: Answer) -> str | None:
    """Return a message if a NaN answer changes when the guards hold zeros."""
    import numpy as np

    if not any(np.isnan(got).any() for got in answer.got.values()):
        return None
    if any(np.isnan(x).any() for x in answer.x.values()):
        return None
    place.bench.mark(harmless=True)
    place.bench.load(answer.x)
    place.call()
    again = place.bench.answer()
    place.bench.mark()
    same = (np.array_equal(np.isnan(got), np.isnan(again[name])) for name, got in answer.got.items())
    return None if all(same) else "reads beyond its operands: its answer depends on what lies there"


def _of_copies(problem: Problem, answer: Answer, evidence: Evidence, u: float) -> str | None:
    """Return a message if an output is right for an input as it was before a change of one element."""
    output = evidence.operand
    if not answer.before or _repeated(answer.got[output], answer.earlier.get(output)):
        return None
    for name, array in answer.before.items():
        if array is answer.x[name]:
            continue
        compared = problem.compare(answer.x | {name: array}, answer.got, u, evidence.test)
        if all((e.error <= e.bound).all() for e in compared if e.operand == output):
            where = f"{output}: " if len(problem.outputs) > 1 else ""
            return f"{where}keeps a copy of its input {name}: a changed element is not in its answer"
    return None


def _repeated(got: Array, earlier: Array | None) -> bool:
    import numpy as np

    return earlier is not None and np.array_equal(got, earlier)


def _weigh(place: Place, answer: Answer, evidence: Evidence, worst: Passed) -> Passed:
    """Return the worse of the known error and this comparison, relative to the bounds."""
    import numpy as np

    fits = evidence.error <= evidence.bound  # NaN does not fit
    if not fits.all():
        raise WrongResult(explain(place, answer, evidence))
    share = np.divide(evidence.error, evidence.bound, out=evidence.error, where=evidence.bound > 0)
    at = np.unravel_index(np.argmax(share), share.shape)
    bound = float(evidence.bound[at])
    here = Passed(float(share[at]) * bound, bound)
    bounded = worst.bound not in (0.0, np.inf)  # an output that may not err hides none that may
    return worst if bounded and here.error * worst.bound <= worst.error * here.bound else here


def explain(place: Place, answer: Answer, evidence: Evidence) -> str:
    """Describe the error of an output, the most specific cause first, with its name if there are several."""
    name = evidence.operand
    reason = _explain(place, answer, evidence)
    return f"{name}: {reason}" if len(place.bench.problem.outputs) > 1 else reason


def _explain(place: Place, answer: Answer, evidence: Evidence) -> str:
    import numpy as np

    problem, name = place.bench.problem, evidence.operand
    got, earlier = answer.got[name], answer.earlier.get(name)
    bad = ~(evidence.error <= evidence.bound)  # NaN is bad too
    if reason := _swallowed(problem, answer.x, got, evidence) or _unwritten(place, answer, name, bad):
        return reason
    if np.isnan(got).any():
        return _of_beyond(place, answer) or f"not a number at {_first(np.isnan(got))}"
    if np.isinf(got).any():
        return f"infinite at {_first(np.isinf(got))}"
    if not got.any():
        return "answers zeros"
    if _repeated(got, earlier):
        return "repeats its answer to earlier inputs"
    if evidence.test in (*problem.probes, GRADED, *DATA):
        pattern = _shape_of_error(problem.reference(answer.x)[name], got, evidence.bound)
        if pattern:
            return pattern
    off = how_far(evidence.error[bad], evidence.bound[bad])
    return f"{evidence.test} probe: {bad.sum()} of {bad.size} values {off}, first at {_first(bad)}"


def _swallowed(problem: Problem, x: dict[str, Array], got: Array, evidence: Evidence) -> str | None:
    """Return a message where a number stands in place of a NaN or an infinity."""
    import numpy as np

    if evidence.test != SPECIAL:
        return None
    with np.errstate(all="ignore"):
        want = problem.reference(x)[evidence.operand]
    lost = ~np.isfinite(want) & np.isfinite(got)
    if not lost.any():
        return None
    what = "a NaN" if np.isnan(want[lost]).any() else "an infinity"
    return f"swallows {what} of its inputs: a number at {_first(lost)}"


def _unwritten(place: Place, answer: Answer, name: str, bad: Array) -> str | None:
    """Return a message for wrong elements that still hold the old value.

    An old value may be the right one."""
    x, got = answer.x, answer.got[name]
    untouched = _untouched(x, name, got)
    empty = untouched & bad if bad.shape == got.shape else untouched
    if not empty.any():
        return None
    time.sleep(LATE)
    if _untouched(x, name, place.bench.answer()[name]).sum() < untouched.sum():
        return "returns before it is done: its output was still being written"
    if reason := _of_beyond(place, answer):
        return reason
    if untouched.all():
        return "writes nothing: every output is as it was"
    return f"leaves {empty.sum()} of {got.size} outputs unwritten, first at {_first(empty)}"


def _untouched(x: dict[str, Array], name: str, got: Array) -> Array:
    """Mask of an output's elements that are as before the launch: poisoned, or the old values."""
    import numpy as np

    empty: Array = np.isnan(got) if name not in x else got == x[name]
    return empty


def _shape_of_error(want: Array, got: Array, bound: Array) -> str | None:
    """Return a message if two axes are exchanged, or the result is off by a factor."""
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
