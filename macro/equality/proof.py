"""Proof of equal work before timing: the same losses, gradients and steps from the same weights.

Each array's bound is the largest of multiples of the differences that the NumPy reference shows in single precision
between legal orders of its sums, with an exponential as coarse as libraries compute it, and with weights perturbed by
some units. The perturbation covers rare, large effects: rounding decides whether a ReLU passes a number, or which
element of a pooling window is the largest. Correct frameworks differ by about the bound, other work by far more.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from kernels import state
from kernels.devices.cpu import cores, processor
from kernels.errors import SuiteError
from kernels.libs import preload
from macro.equality import code, defects, timed
from macro.equality.answer import COUNTS, MOVED, Answer, Question, answers, apart, norm, relative, right
from macro.frameworks import Framework, find, interpreter
from macro.networks.base import Network
from macro.processes import job
from macro.processes.ahead import AT_ONCE
from macro.processes.job import Setting
from reports import units

FACTOR = 16.0  # times the difference between orders of summation in the reference
ELSEWHERE = 2.0  # times the difference made by an optimizer's epsilon added elsewhere, as libraries do
COARSELY = 4.0  # times the difference made by a coarse exponential: over few samples, its errors do not cancel
FLOOR = 2.0**-22  # least bound of a relative difference: four units of single precision
LOSS_FLOOR = 2.0**-20  # least bound of a loss: libraries' exponential and logarithm are off by some units more
COARSE = 1 + LOSS_FLOOR  # factor on all probabilities of a softmax: errors in one direction (seen in oneDNN 1.7)
ORDERS = ("reversed", "shuffled")
# Fields of an identity that require another proof; threads and heaps change rounding only within the bounds
HOLDS = ("version", "build", "blas", "dnn", "python", "libraries", "flags", "dispatch", "isa_asked")
# Variables that change no results: threads, malloc, and oneDNN's names of generated code for perf.
SAME = re.compile(r"(NUM_THREADS|NTHREADS?|NPROC|JIT_PROFILE)$|^MALLOC_")
Judged: TypeAlias = "tuple[Verdict, Mapping[str, Any]]"  # a verdict and the framework's identity
REFERENCE = "numpy"
NETWORK = "the network itself"  # `where` of a verdict that holds for every framework
RULE = (
    "usual, losses by the first",
    COUNTS,
    FACTOR,
    timed.TWICE,
    COARSELY,
    ELSEWHERE,
    FLOOR,
    LOSS_FLOOR,
    ORDERS,
    MOVED,
    timed.SEEDS,
    timed.OFTEN,
    timed.LARGE,
    timed.SMALL,
)  # parameters of the judgement: a change invalidates kept proofs


@dataclass(frozen=True)
class Verdict:
    """Result of comparing a framework's work with the reference's."""

    framework: str
    equal: bool
    why: str | None  # the first difference, in words
    worst: float  # the largest ratio of a difference to its bound; NaN if the framework did not run
    where: str  # the array with this ratio
    losses: tuple[float, ...] = ()
    proof: str = ""  # the references that it was compared with

    @property
    def compared(self) -> bool:
        """True if the framework ran and was compared."""
        return not math.isnan(self.worst)


def reference(network: Network, batch: int, folder: Path) -> tuple[Answer, dict[str, float]]:
    """Return NumPy's answer, and bounds on the relative difference of each array and of the `loss`."""
    asked = Question(find(REFERENCE), network, batch, Setting(max(1, cores() // AT_ONCE)), folder)
    (plain,) = map(right, answers([asked]))
    kept = f"bounds-{key(network, batch, asked.framework, asked.setting, plain.identity)}"
    bounds = _stored(kept)
    if bounds is None:
        bounds = _bounds(plain, asked)
        _store(kept, bounds)
    return plain, bounds


def _bounds(plain: Answer, asked: Question) -> dict[str, float]:
    kinds: list[dict[str, Any]] = [{"shares": COARSE}, *({"order": order} for order in ORDERS)]
    kinds += [{"elsewhere": True}] if asked.network.epsilon else []
    odd = [replace(asked, setting=replace(asked.setting, knobs=x)) for x in kinds]
    coarse, *rest = map(right, answers([*odd, *timed.moved(asked)]))
    others, elsewhere, moved = rest[: len(ORDERS)], rest[len(ORDERS) : len(kinds) - 1], rest[len(kinds) - 1 :]
    off_by = {
        name: timed.TWICE * max(relative(x.arrays[name], array) for x in moved) for name, array in plain.arrays.items()
    }
    bounds = {
        name: max(
            FLOOR,
            FACTOR * max(relative(other.arrays[name], array) for other in others),
            COARSELY * relative(coarse.arrays[name], array),
            *(ELSEWHERE * relative(other.arrays[name], array) for other in elsewhere),
            off_by[name],
            timed.usual(name, off_by, plain.built["parameters"]),
        )
        for name, array in plain.arrays.items()
    }
    losses = [share for other in others for share in apart(other, plain)]
    off = [timed.TWICE * share for other in moved for share in apart(other, plain)]
    off += [ELSEWHERE * share for other in elsewhere for share in apart(other, plain)]
    return bounds | {"loss": max(LOSS_FLOOR, FACTOR * max(losses), *off)}


def judge(answer: Answer, want: Answer, bounds: Mapping[str, float]) -> Verdict:
    """Compare an answer with the reference; `why` is the first difference in the order of computation."""
    if structure := _structure(answer, want):
        return Verdict(answer.framework, False, structure, math.inf, "parameters", answer.losses)
    shares: dict[str, float] = {}
    for i, share in enumerate(apart(answer, want)):
        shares[f"loss {i}"] = share / bounds["loss"]
    for name, array in want.arrays.items():
        given = answer.arrays[name]
        same = given.shape == array.shape
        shares[name] = relative(given, array) / bounds[name] if same else math.inf
    failed = [name for name, share in shares.items() if not share <= 1]  # NaN is no equality
    sizes = {name: math.inf if math.isnan(share) else share for name, share in shares.items()}
    where = max(sizes, key=lambda name: sizes[name])
    why = f"{failed[0]} differs by {shares[failed[0]]:.3g} times its bound" if failed else None
    return Verdict(answer.framework, not failed, why, sizes[where], where, answer.losses)


def _structure(answer: Answer, want: Answer) -> str | None:
    """Return the first difference in parameter counts, types, batch and array names, or None."""
    ours, theirs = want.built["parameters"], answer.built["parameters"]
    for name in [*ours, *theirs]:
        if ours.get(name) != theirs.get(name):
            return f"{name} has {theirs.get(name, 0)} parameters where the network has {ours.get(name, 0)}"
    if answer.wide:
        return f"{answer.wide}, not in single precision"
    if answer.built.get("batch") != want.built["batch"]:
        return f"the batch is {answer.built.get('batch')}, not {want.built['batch']}"
    missing = [name for name in want.arrays if name not in answer.arrays]
    return f"the answer lacks {missing[0]}" if missing else None


def prove(
    network: Network, batch: int, wanted: Sequence[tuple[Framework, Setting]], folder: Path, say: Callable[[str], None]
) -> list[Verdict]:
    """Compare each framework with the reference; store successful proofs, which `proven` looks up."""
    at = timed.small(network, batch)
    say("reference: NumPy's answer and its error bounds" + (f", at batch {at}" if at != batch else ""))
    want, bounds = reference(network, at, folder)
    why, unseen = _untellable(want, bounds, job.files(at, folder)["weights"], network.rate)
    if why:
        return [Verdict(framework.name, False, why, math.nan, NETWORK) for framework, _ in wanted]
    rival = timed.reference(network, batch, folder) if at != batch else None
    questions = [Question(framework, network, at, setting, folder) for framework, setting in wanted]
    results, verdicts = _small(questions, want, bounds, say), []
    if rival is not None:
        results = _large(questions, list(results), batch, rival, bounds, say)
    for (framework, setting), (judged, identity) in zip(wanted, results, strict=True):
        proof = judged.proof or f"against NumPy at batch {at}"
        verdict = replace(judged, proof="; ".join((proof, *unseen)))
        if verdict.equal and (rival is None or rival.conclusive):
            keep(network, batch, framework, setting, identity, verdict)
        verdicts.append(verdict)
    return verdicts


def _small(
    questions: Sequence[Question], want: Answer, bounds: Mapping[str, float], say: Callable[[str], None]
) -> Iterator[Judged]:
    """Yield each framework's verdict against NumPy, and its identity."""
    with closing(answers(questions)) as given:
        for question, answer in zip(questions, given, strict=True):
            say(f"equal work: {question.framework.name}")
            if isinstance(answer, SuiteError):
                yield Verdict(question.framework.name, False, str(answer), math.nan, "cannot run"), {}
                continue
            verdict = judge(answer, want, bounds)
            about = question.network, question.batch, question.folder
            if not verdict.equal and (name_of := defects.name(answer, want, *about)):
                verdict = replace(verdict, why=f"{name_of}: {verdict.why}")
            yield verdict, answer.identity


def _large(
    questions: Sequence[Question],
    small: Sequence[Judged],
    batch: int,
    rival: timed.Reference,
    bounds: Mapping[str, float],
    say: Callable[[str], None],
) -> Iterator[Judged]:
    """Yield the verdicts, each equal so far extended by a comparison with the rival at the timed batch."""
    pairs = list(zip(questions, small, strict=True))
    again = [
        shares.equal and timed.asks(question.framework, question.setting, rival) for question, (shares, _) in pairs
    ]
    asked = [replace(x, batch=batch, counts=timed.STEPS) for x, wanted in zip(questions, again, strict=True) if wanted]
    with closing(answers(asked)) as given:
        for (question, (verdict, identity)), wanted in zip(pairs, again, strict=True):
            if rival.wrong and question.framework.name == timed.RIVAL and question.setting.device == "cpu":
                why = f"the answer at batch {batch} is not finite"
                verdict = replace(verdict, equal=False, why=why, worst=math.inf, where="outputs")
            if not verdict.equal:
                yield verdict, identity
                continue
            answer, shares = next(given) if wanted else None, dict[str, float]()
            if isinstance(answer, SuiteError):
                yield Verdict(verdict.framework, False, str(answer), math.nan, "cannot run"), identity
                continue
            if answer is not None and rival.answer is not None:
                say(f"equal work: {verdict.framework}, at batch {batch}")
                identity = answer.identity  # at the timed batch, which may use other kernels
                if structure := _structure(answer, rival.answer):
                    why = f"{structure}, at batch {batch}"
                    yield replace(verdict, equal=False, why=why, worst=math.inf, where="parameters"), identity
                    continue
                shares = timed.shares(answer, question.network, batch, rival, bounds)
            yield _at_both(verdict, question.batch, rival, shares), identity


def _untellable(want: Answer, bounds: Mapping[str, float], weights: str, rate: float) -> tuple[str | None, list[str]]:
    """Return the reason why the reference proves nothing, or None; and notes on steps that prove nothing."""
    import numpy as np

    finite = all(bool(np.isfinite(array).all()) for array in want.arrays.values())
    if not (finite and all(map(math.isfinite, want.losses))):
        losses = ", ".join(f"{x:g}" for x in want.losses)
        return f"the reference diverges (losses {losses}): use a rate smaller than {rate:g}", []
    with np.load(weights) as given:
        if not any(want.arrays[f"gradient.{name}"].any() for name in given.files):
            return None, []  # as in a network of one class
        blind = [count for count in COUNTS if not any(_moved(want, bounds, count, x, given[x]) for x in given.files)]
    if len(blind) == len(COUNTS):
        return f"steps change weights no more than rounding does: use a rate larger than {rate:g}", []
    text = "weights after {} prove nothing, as rounding changes them as much as the steps"
    return None, [text.format(units.counted(count, "step")) for count in blind]


def _moved(want: Answer, bounds: Mapping[str, float], count: int, name: str, given: Any) -> bool:
    """Return whether `count` steps move a weight further than its bound for rounding."""
    after = want.arrays[f"after{count}.{name}"]
    return norm(after - given) > bounds[f"after{count}.{name}"] * norm(after)


def _at_both(verdict: Verdict, at: int, rival: timed.Reference, shares: Mapping[str, float]) -> Verdict:
    """Return the verdict with the timed batch's ratios included; `shares` is empty if not compared there."""
    ratios = {name: math.inf if math.isnan(x) else x for name, x in {**shares, verdict.where: verdict.worst}.items()}
    where = max(ratios, key=lambda name: ratios[name])
    failed = [name for name, share in shares.items() if not share <= 1]
    why = f"{failed[0]} differs by {shares[failed[0]]:.3g} times its bound" if failed else None
    itself = rival.answer is not None and not shares
    words = "; others are compared with it at the timed batch" if itself else rival.words
    proof = f"against NumPy at batch {at}{words}"
    return replace(verdict, equal=not failed, why=why, worst=ratios[where], where=where, proof=proof)


def key(network: Network, batch: int, framework: Framework, setting: Setting, identity: Mapping[str, Any]) -> str:
    """Return a hash of all that a proof depends on: work, code, build, libraries, variables, CPU, RULE."""
    large = timed.small(network, batch) != batch
    parts = [
        large and interpreter(find(timed.RIVAL)) is not None,
        network.data(),
        batch,
        code.digest(framework.path),
        framework.knobs,
        setting.knobs,
        RULE,
    ]
    # A framework that autotunes has also loaded libraries of rejected kernels, which set variables;
    # its flags list the candidates.
    parts += [identity.get(name) for name in HOLDS if not (framework.chooses and name == "libraries")]
    variables = {} if framework.chooses else identity.get("variables") or {}
    parts.append({name: value for name, value in variables.items() if not SAME.search(name)})
    parts += [word for word in preload.words(setting.preload) if word not in preload.ALLOCATORS]
    parts += [setting.threads] if framework.chooses else []  # the number of threads may select other kernels
    parts += [setting.device] if setting.device != "cpu" else []
    parts.append(processor())
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]


def keep(
    network: Network, batch: int, framework: Framework, setting: Setting, identity: Mapping[str, Any], verdict: Verdict
) -> None:
    """Store a successful proof, for `proven`."""
    record = {"network": network.name, "batch": batch, **asdict(verdict)}
    _store(key(network, batch, framework, setting, identity), record)


def proven(
    network: Network, batch: int, framework: Framework, setting: Setting, identity: Mapping[str, Any]
) -> str | None:
    """Return the references in the stored proof of this very case, or None if there is no proof."""
    kept = _stored(key(network, batch, framework, setting, identity))
    return None if kept is None else str(kept.get("proof", ""))


def _store(name: str, record: Mapping[str, Any]) -> None:
    """Write a record to the state folder; ignore errors, as a lost record only costs another proof."""
    with suppress(OSError):
        state.write(f"equal/{name}.json", json.dumps(record, default=str))


def _stored(name: str) -> Any:
    """Return a stored record; None if it is missing or incomplete."""
    with suppress(OSError, ValueError):
        return json.loads((state.folder() / f"equal/{name}.json").read_text("utf-8"))
    return None
