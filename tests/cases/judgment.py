"""The judgment of a report's document: its largest cause and that cause's share, its advice, its savings."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from macro.explaining import settings
from tests.cases.court import Case

NEAR = 0.25  # of a share, relative: the most by which the report's may differ from the true one
FAR = 2.0  # times a true step: what a busy machine does not explain
NOISE = 0.1  # of a true saving: two runs of one script differ by so much
# Right or harmless for any script here: the second on AMD alone, the third since nearly all set one thread.
ALWAYS = ("keep freed memory", "MKL's vendor check", "more threads")
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
SETTINGS = {  # patterns of their sentences
    name: ".*?".join(map(re.escape, re.split(r"\{[^}]*\}", row["text"])))
    for name, row in tomllib.loads(Path(settings.__file__).with_suffix(".toml").read_text("utf-8")).items()
}
TIME = r"([−+-]?[\d.]+) (ns|µs|ms|s)\b"

Document = Mapping[str, Any]


def row(case: Case, true: Mapping[str, float], report: str, document: Document) -> dict[str, Any]:
    """Return the judgment of a report: its faults, and what it names first and bounds."""
    faults = [*case.faults(report), *step_faults(case, true, document), *cause_faults(case.cause, document)]
    faults += [
        *account_faults(document),
        *advice_faults(case, document["sentences"]),
        *bound_faults(case, true["saving"], document),
    ]
    name, share = largest(case.cause, document) if case.cause else ("", 0.0)
    most, trials = bound(case.bound, document), trials_of(document)
    return {"named": name, "share": share, "bound": most, "faults": faults, "trials": trials}


def trials_of(document: Document) -> dict[str, float]:
    """Return what trials in the report saved for certain, as shares of its step, by their names."""
    step = document["step"]["a"]
    return {trial["name"]: trial["saves"] / step for trial in document["trials"] if trial["low"] > 0}


def largest(cause: Mapping[str, Any], document: Document) -> tuple[str, float]:
    """Return what the document puts first in a cause's view (kinds, operations, …), and its share of a step."""
    if "long" in cause:
        long = document.get("long")
        return ("long", long["share"]) if long else ("no long steps", 0.0)
    if "setting" in cause:
        named = [x for x in advised(document["sentences"]) if x in SETTINGS]
        return (cause["setting"] if cause["setting"] in named else ", ".join(named) or "no setting"), 0.0
    view, wanted = next((view, cause[view]) for view in VIEWS if view in cause)
    seconds = VIEWS[view](document)
    if view == "module":  # a module's parents hold its time too, and it that of its parts
        related = [
            x for x in seconds if x != wanted and (f"{x}.".startswith(f"{wanted}.") or wanted.startswith(f"{x}."))
        ]
        seconds = {x: s for x, s in seconds.items() if x not in related}
    name = max(seconds, key=lambda x: seconds[x], default="nothing")
    return name, seconds.get(name, 0.0) / document["step"]["a"]


def step_faults(case: Case, true: Mapping[str, float], document: Document) -> Iterator[str]:
    """Yield a step's time that is far from the true one by either clock, as of another step."""
    regular = 1 - (document.get("long") or {}).get("share", 0.0)  # the true step is a mean with long ones
    step, clocks = document["step"]["a"] / regular, (true["processor"], true["wall"])
    if case.steady and not min(clocks) / FAR < step < max(clocks) * FAR:
        yield f"a step: {1e3 * step:.1f} ms, not {1e3 * min(clocks):.1f} to {1e3 * max(clocks):.1f} ms"


def account_faults(document: Document) -> Iterator[str]:
    """Yield what cannot be: kinds of work, or a line of regular steps, that take far more than a step."""
    most, place = document["step"]["a"] * (1 + NEAR), (document.get("long") or {}).get("place")
    if (kinds := sum(x["a"] for x in document["kinds"])) > most:
        yield f"kinds: {kinds / document['step']['a']:.0%} of a step"
    lines = [x for x in document["lines"] if f"{x['file']}:{x['number']}" != place and x["seconds"] > most]
    yield from (f"line {x['number']}: {x['seconds'] / document['step']['a']:.0%} of a step" for x in lines)


def cause_faults(cause: Mapping[str, Any], document: Document) -> Iterator[str]:
    """Yield what is wrong with the largest cause: its name, or its share."""
    if not cause:
        return
    name, share = largest(cause, document)
    wanted = next((cause[view] for view in (*VIEWS, "setting") if view in cause), "long")
    true = cause.get("long", cause.get("share"))
    if name != wanted:
        yield f"first: {name} {share:.0%}, not {wanted}"
    elif true is not None and abs(share - true) > NEAR * true:
        yield f"{wanted}: {share:.0%}, not {true:.0%}"


def advice_faults(case: Case, sentences: Sequence[str]) -> Iterator[str]:
    """Yield advice that is missing, and advice that is wrong for the script; what was made and saved is not."""
    if not case.advice:
        return
    named = advised(sentences)
    must, may = case.advice.get("must", ()), (*case.advice.get("may", ()), *ALWAYS)
    yield from (f"not advised: {x}" for x in must if x not in named)
    unproven = (x for x, text in named.items() if "measured here" not in text)
    yield from (f"advised: {x}" for x in unproven if x not in must and x not in may)


def bound_faults(case: Case, saving: float, document: Document) -> Iterator[str]:
    """Yield a saving that the report bounds below the true share of a step, or advice that costs time."""
    most = bound(case.bound, document)
    if saving < -NOISE and case.bound in advised(document["sentences"]):
        yield f"advised: {case.bound}, which costs {-saving:.0%}"
    if most is not None and most < (1 - NOISE) * saving:
        yield f"{case.bound}: at most {most:.0%} of a step, but saves {saving:.0%}"


def advised(sentences: Sequence[str], start: str = "To try: ") -> dict[str, str]:
    """Return the sentences that advise something, by the names in remedies.toml and settings.toml."""
    named = {x.split(": ")[1].split(" is not certain ")[0]: x for x in sentences if x.startswith(start)}
    for text in (x for x in sentences if x.startswith("Setting: ")):
        name = next((name for name, pattern in SETTINGS.items() if re.search(pattern, text)), "unknown setting")
        named[name] = text
    return named


def bound(name: str, document: Document) -> float | None:
    """Return the most that a report says of a remedy's saving, as a share of its step; None if it says nothing."""
    text = (advised(document["sentences"], "Not worth it: ") | advised(document["sentences"])).get(name, "")
    if at_most := re.search(rf"at most {TIME}", text):
        return _seconds(at_most) / float(document["step"]["a"])
    if interval := re.search(rf"\[{TIME}, {TIME}\]", text):
        sign = -1 if "is not certain" in text else 1  # this one gives the change of the step's time
        return max(sign * _seconds(x) for x in re.finditer(TIME, interval.group())) / float(document["step"]["a"])
    return None


def _seconds(match: re.Match[str]) -> float:
    return float(match[1].replace("−", "-")) * UNITS[match[2]]


def _sum(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for name, value in pairs:
        seconds[name] += value
    return dict(seconds)


VIEWS = {
    "kind": lambda document: _sum((x["name"], x["a"]) for x in document["kinds"]),
    "phase": lambda document: _sum((x["phase"], x["a"]) for x in document["cells"]),
    "operation": lambda document: _sum(
        (x["name"], x["seconds"]) for cell in document["cells"] for x in cell["operations"]
    ),
    "module": lambda document: _sum((x["path"], sum(x["phases"].values())) for x in document["modules"]),
    "line": lambda document: _sum((f"{Path(x['file']).name}:{x['number']}", x["seconds"]) for x in document["lines"]),
}
