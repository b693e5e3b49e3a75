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

LATE = 0.3  # seconds to wait for outputs that were missing when the call returned


@dataclass(frozen=True, slots=True)
class Passed:
    """Result of a passed check: error and bound of the element whose error is nearest to its bound."""

    error: float
    bound: float


@dataclass(frozen=True, slots=True)
class Asked:
    """Options of a check: shared inputs, the distribution of timed inputs, and the crash cell."""

    drawn: Drawn | None = None  # inputs shared by all rivals; None: drawn for this check
    data: str = "normal"  # distribution of the inputs that are timed
    cell: int = 0  # address of the cell that holds the case under way, for a crash at a fence; 0: none


@dataclass(frozen=True)
class Place:
    """A placement of a problem's operands, and the kernel's call bound to it."""

    bench: Bench
    call: Callable[[], object]


@dataclass(frozen=True)
class Answer:
    """Inputs and outputs of one call."""

    x: dict[str, Array]
    before: dict[str, Array]  # inputs before an element of each was changed; empty if none was
    got: dict[str, Array]
    earlier: dict[str, Array]  # outputs of the previous call


def check(
    device: Device, problem: Problem, variant: Variant[Any], bind: Bind, seed: int, asked: Asked | None = None
) -> tuple[Passed, float]:
    """Run the calls of `turns` and compare; return the worst error and the seconds of a launch.

    Inputs are `asked.drawn`, or drawn from the seed. The seconds are those of the last launch on unfenced operands.
    Raises WrongResult with a description of the error."""
    import numpy as np

    asked = asked or Asked()
    bench = Bench(device, problem)
    bind(bench.at(device.kind.alignment))  # a kernel that caches its first operands' addresses would write there
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
    """Run the calls in order, compare every judged answer, and return the worst error.

    Raises WrongResult; LeftChanged if a call changes floating-point state or cores, which would affect the next."""
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
    """Inputs of one check, by probe; all probes share the inputs that the variant may cache."""

    def __init__(self, problem: Problem, variant: Variant[Any], rng: np.random.Generator, drawn: Drawn | None) -> None:
        self._problem, self._variant, self._rng = problem, variant, rng
        self._drawn = drawn if drawn and drawn.constant == variant.constant else None
        self._known: dict[str, dict[str, Array]] = {}
        self._kept: dict[str, Array] = {}

    def of(self, turn: Turn) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the inputs of a call, and its inputs before an element of each was changed, or {}."""
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
    """Run one call on these inputs and return its outputs. Raises LeftChanged."""
    import numpy as np

    bench = place.bench
    if turn.place != "guarded":  # operands at the other end of these pages have overwritten the guards
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
    """A change of a thread's floating-point state or allowed cores by a call."""


@contextmanager
def unchanged() -> Iterator[None]:
    """Restore the process state after the block; raise WrongResult if the block changed it.

    Cores are restored only after LeftChanged: otherwise another process has changed them."""
    before, by_call = process_state.take(), False
    try:
        yield
    except LeftChanged:  # it ended the block, so that no later call ran in a changed state
        by_call = True
    finally:
        after = process_state.take()
        before = before if by_call else replace(before, cores=after.cores)
        process_state.restore(before)
    if changes := process_state.state_changes(before, after):
        raise WrongResult("; ".join(changes))


def _compared(place: Place, variant: Variant[Any], probe: str, answer: Answer, worst: Passed) -> Passed:
    """Return the worst of `worst` and the errors of all outputs of a call. Raises WrongResult."""
    bench, u = place.bench, variant.u(place.bench.problem)
    judged = variant.judged(bench.problem)
    compared = judged.compare(answer.x, answer.got, u, probe)
    if unseen := answer.got.keys() - {evidence.operand for evidence in compared}:
        raise LaunchError(f"the check of {bench.problem.op} does not cover {', '.join(sorted(unseen))}")
    for evidence in compared:
        try:
            worst = _weigh(place, answer, evidence, worst)
        except WrongResult as error:
            refused = WrongResult(_of_copies(judged, answer, evidence, u) or str(error))
            refused.evidence = Found(probe, answer.x, answer.got, evidence)
            raise refused from None
    return worst


def _of_beyond(place: Place, answer: Answer) -> str | None:
    """Return a message if NaN answers change once the guards hold zeros, not NaN; None otherwise."""
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
    return None if all(same) else "reads beyond its operands: its result depends on adjacent memory"


def _of_copies(problem: Problem, answer: Answer, evidence: Evidence, u: float) -> str | None:
    """Return a message if an output is right for an input before its change; None otherwise."""
    output = evidence.operand
    if not answer.before or _repeated(answer.got[output], answer.earlier.get(output)):
        return None
    for name, array in answer.before.items():
        if array is answer.x[name]:
            continue
        compared = problem.compare(answer.x | {name: array}, answer.got, u, evidence.test)
        if all((e.error <= e.bound).all() for e in compared if e.operand == output):
            where = f"{output}: " if len(problem.outputs) > 1 else ""
            return f"{where}caches its input {name}: its result ignores a changed element"
    return None


def _repeated(got: Array, earlier: Array | None) -> bool:
    import numpy as np

    return earlier is not None and np.array_equal(got, earlier)


def _weigh(place: Place, answer: Answer, evidence: Evidence, worst: Passed) -> Passed:
    """Return the worse of `worst` and this comparison, relative to the bounds. Raises WrongResult."""
    import numpy as np

    fits = evidence.error <= evidence.bound  # NaN does not fit
    if not fits.all():
        raise WrongResult(explain(place, answer, evidence))
    share = np.divide(evidence.error, evidence.bound, out=evidence.error, where=evidence.bound > 0)
    at = np.unravel_index(np.argmax(share), share.shape)
    bound = float(evidence.bound[at])
    here = Passed(float(share[at]) * bound, bound)
    bounded = worst.bound not in (0.0, np.inf)  # an exact output (bound 0) must not hide the error of another output
    return worst if bounded and here.error * worst.bound <= worst.error * here.bound else here


def explain(place: Place, answer: Answer, evidence: Evidence) -> str:
    """Describe an output's error by its most specific cause; name the output if there are several."""
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
        return _of_beyond(place, answer) or f"NaN at {_first(np.isnan(got))}"
    if np.isinf(got).any():
        return f"infinite at {_first(np.isinf(got))}"
    if not got.any():
        return "returns zeros"
    if _repeated(got, earlier):
        return "repeats its result for earlier inputs"
    if evidence.test in (*problem.probes, GRADED, *DATA):
        pattern = _shape_of_error(problem.reference(answer.x)[name], got, evidence.bound)
        if pattern:
            return pattern
    off = how_far(evidence.error[bad], evidence.bound[bad])
    return f"{evidence.test} probe: {bad.sum()} of {bad.size} values {off}, first at {_first(bad)}"


def _swallowed(problem: Problem, x: dict[str, Array], got: Array, evidence: Evidence) -> str | None:
    """Return a message if the answer is finite where it must be NaN or infinite; None otherwise."""
    import numpy as np

    if evidence.test != SPECIAL:
        return None
    with np.errstate(all="ignore"):
        want = problem.reference(x)[evidence.operand]
    lost = ~np.isfinite(want) & np.isfinite(got)
    if not lost.any():
        return None
    what = "a NaN" if np.isnan(want[lost]).any() else "an infinity"
    return f"does not propagate {what} of its inputs: finite at {_first(lost)}"


def _unwritten(place: Place, answer: Answer, name: str, bad: Array) -> str | None:
    """Return a message if wrong elements still hold their value of before the call; None otherwise.

    Unwritten elements do not count if they happen to be right."""
    x, got = answer.x, answer.got[name]
    untouched = _untouched(x, name, got)
    empty = untouched & bad if bad.shape == got.shape else untouched
    if not empty.any():
        return None
    time.sleep(LATE)
    if _untouched(x, name, place.bench.answer()[name]).sum() < untouched.sum():
        return "returns before its output is complete"
    if reason := _of_beyond(place, answer):
        return reason
    if untouched.all():
        return "writes nothing: all outputs are unchanged"
    return f"leaves {empty.sum()} of {got.size} outputs unwritten, first at {_first(empty)}"


def _untouched(x: dict[str, Array], name: str, got: Array) -> Array:
    """Mask of the output elements still as before the call: NaN, or the input of an `inout`."""
    import numpy as np

    empty: Array = np.isnan(got) if name not in x else got == x[name]
    return empty


def _shape_of_error(want: Array, got: Array, bound: Array) -> str | None:
    """Return a message if two axes are exchanged or all is off by one factor; None otherwise."""
    import numpy as np

    for i, j in itertools.combinations(range(got.ndim), 2):
        if got.shape[i] == got.shape[j] and (np.abs(got.swapaxes(i, j) - want) <= bound).all():
            matrix = got.ndim == 2
            return "returns the transposed result" if matrix else f"returns the result with axes {i} and {j} exchanged"
    scale = float((got * want).sum() / max(float((want * want).sum()), 1e-300))
    if abs(scale - 1) > 1e-3 and (np.abs(got - scale * want) <= 2 * max(abs(scale), 1) * bound).all():
        return f"wrong by the factor {scale:.4g}: a scale such as alpha is missing or applied twice"
    return None


def _first(mask: Array) -> list[int]:
    import numpy as np

    return [int(i) for i in np.argwhere(mask)[0]]
