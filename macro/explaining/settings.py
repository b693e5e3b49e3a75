"""Settings of a watched program that are worth a look, by the table settings.toml."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reports import company
from reports.explanation import Breakdown, Trial
from reports.units import seconds, signed

FEW = 10  # times the numbers of a batch: a gradient is sparse if the table holds more
MANY = 50  # tensors of an optimizer from which on updating them in a few calls may save time
TINY = 0.4  # share of a step in what its calls cost, from which on fewer calls are advised
LOADS = 0.02  # share of a step from which on its loader, or a trial's saving, matters
HALF = 0.5  # share of a step's FLOP, or of its time, that is most of it
CLEARING = ("zero_", "_foreach_zero_")  # operations


@dataclass(frozen=True)
class Setting:
    """A setting that costs time: when it is reported, as what, and what to type instead."""

    text: str
    do: str
    when: Mapping[str, Any] = field(default_factory=dict)  # facts and their values; all must hold
    more: Sequence[Any] = ()  # a fact, and the fact or number that it must exceed
    trial: str = ""  # the name of the trial that makes it, formatted with the facts

    def holds(self, facts: Mapping[str, Any]) -> bool:
        """Return whether the setting is to be reported; an unknown fact is no reason."""
        if any(facts.get(name) != value for name, value in self.when.items()):
            return False
        more: list[Any] = [facts.get(x) if isinstance(x, str) else x for x in self.more]
        return None not in more and (not more or more[0] > more[1])


SETTINGS = [Setting(**row) for row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).values()]


def sentences(breakdown: Breakdown) -> list[str]:
    """Return a sentence for each setting that holds, but those of which a trial saved nothing for certain."""
    return [f"Setting: {text}" for text, trial in _held(breakdown) if not trial or trial.low > 0]


def undecided(breakdown: Breakdown) -> list[str]:
    """Return a sentence for each setting of which a trial saved nothing for certain, but may save something."""
    least = LOADS * breakdown.step["a"]
    return [
        f"Undecided: {text}" for text, trial in _held(breakdown) if trial and trial.low <= 0 and trial.high >= least
    ]


def _held(breakdown: Breakdown) -> Iterator[tuple[str, Trial | None]]:
    """Yield each setting that holds, in words, with its trial."""
    facts = facts_of(breakdown)
    tried = {} if company.disturbs(breakdown) else {trial.name: trial for trial in breakdown.trials}
    for setting in (x for x in SETTINGS if x.holds(facts)):
        trial = tried.get(setting.trial.format(**facts))
        effect = f", which {effect_of(trial)}" if trial else ""
        yield f"{setting.text.format(**facts)}. Do: {setting.do.format(**facts)}{effect}.", trial


def effect_of(trial: Trial) -> str:
    """Format what a trial saved, or how a step changed by it where no saving is certain."""
    if trial.low > 0:
        return f"saves {seconds(trial.saves)} [{seconds(trial.low)}, {seconds(trial.high)}] of a step, measured here"
    change = f"{signed(-trial.saves)} [{signed(-trial.high)}, {signed(-trial.low)}]"
    return f"is not certain to save anything: measured here, it changes a step by {change}"


def trials(facts: Mapping[str, Any]) -> list[str]:
    """Return the names of the trials that would make the settings that hold."""
    return [x.trial.format(**facts) for x in SETTINGS if x.trial and x.holds(facts)]


def facts_of(breakdown: Breakdown) -> dict[str, Any]:
    """Return what the settings' conditions and texts refer to; a recording without settings has few facts."""
    seen = dict(breakdown.program.get("settings") or {})
    loaders = [x for x in seen.get("loaders", ()) if x["in_memory"] and x["batch"]]
    loader: dict[str, Any] = next(
        (x for x in loaders if not x.get("in_order")), next(iter(loaders), {})
    )  # for training
    flops, phases = sum(breakdown.types.values()), {cell.phase for cell in breakdown.cells}
    return {
        **seen,
        "threads": breakdown.threads,
        "double": breakdown.types.get("float64", 0.0) / flops if flops else 0.0,
        "float16": breakdown.types.get("float16", 0.0) / flops if flops else 0.0,
        "single": breakdown.types.get("float32", 0.0) > HALF * flops > 0,
        "bf16": seen.get("bf16") is True,
        "products": breakdown.share("gemm") > sum(map(breakdown.share, ("convolution", "attention", "recurrent cell"))),
        **_collecting(breakdown.program.get("counted") or {}),
        **_denormal(breakdown.program.get("denormals") or {}),
        "evaluates": bool(seen.get("evaluated")),
        "cores": seen.get("cores") or breakdown.threads,
        "idle": breakdown.threads < int(seen.get("cores") or 0) and not breakdown.program.get("threads_option"),
        "from_where": _from_where(seen),
        "backward": "backward" in phases,
        "modules": "forward" in phases,
        "launched": not breakdown.program.get("threads_option")
        and seen.get("variables", {}).get("OMP_NUM_THREADS") == "1"
        and seen.get("cores", 1) >= 2,
        "in_memory": bool(loaders) and _loading(breakdown) >= LOADS * breakdown.step["a"],
        "fetched": bool(loaders) and _loading(breakdown) >= HALF * breakdown.step["a"],
        "loader_workers": any(x["workers"] for x in seen.get("loaders", ())),
        "batch": loader.get("batch"),
        "order": "arange" if loader.get("in_order") else "randperm",
        "fusible": any(x["fusible"] and not x["fused"] for x in seen["optimizers"]) if "optimizers" in seen else True,
        "foreach": any(x["foreach"] is None and x["tensors"] > MANY for x in seen.get("optimizers", ())),
        "sparse": _sparse(breakdown),
        "several": breakdown.threads > 1,
        "many": breakdown.threads > (seen.get("cores") or breakdown.threads),
        "thin": "thin product" in breakdown.called,
        "averaged": _together(breakdown, "_softmax", "mean"),
        "tiny": sum(breakdown.share(kind) for kind in ("dispatch", "interpreter", "malloc")) >= TINY,
        "zeroed": any(x.endswith(".zero_grad)") for name in CLEARING for x in _paths(breakdown, name)),
        "scattered": any(  # not by a gradient of what gathers
            x.name.startswith("scatter_add")
            for cell in breakdown.cells
            if cell.phase != "backward"
            for x in cell.operations
        ),
        "grows": breakdown.growth is not None,
        "python": bool(breakdown.lines) and breakdown.share("interpreter") > 2 * breakdown.share("dispatch"),
    }


def _from_where(seen: Mapping[str, Any]) -> str:
    """Return where a step's float64 came from."""
    if seen.get("default_dtype") == "float64":
        return ": torch.set_default_dtype"
    if not seen.get("parameters"):
        return ""
    return ": parameters are float64" if "float64" in seen["parameters"] else ": an input is float64"


def _loading(breakdown: Breakdown) -> float:
    return sum(cell.a for cell in breakdown.cells if cell.phase == "data")


def _collecting(counted: Mapping[str, float]) -> dict[str, Any]:
    """Return the share of all steps' time in garbage collections, their number and their mean in milliseconds."""
    count, total = counted.get("collections", 0), counted.get("collecting", 0.0)
    share = total / counted["plain seconds"] if count else 0.0
    return {"collecting": share, "collections": count, "collection": 1e3 * total / max(1, count)}


def _denormal(counts: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Return the largest share of denormal numbers, and what holds it."""
    shares = {what: denormal / every for what, (denormal, every) in counts.items() if every}
    what = max(shares, key=shares.__getitem__, default="")
    return {"denormal": shares.get(what, 0.0), "denormal_in": what}


def _sparse(breakdown: Breakdown) -> bool:
    """Return whether a step updates far more numbers than its batch takes from an embedding."""
    operations = [(cell.phase, x) for cell in breakdown.cells for x in cell.operations if x.shape]
    taken = [x.shape for _, x in operations if x.name == "embedding_dense_backward"]
    updated = [x.shape for phase, x in operations if phase == "update"]
    tables = [x for x in updated if any(x.rpartition("×")[2] == of.rpartition("×")[2] for of in taken)]
    return bool(tables) and max(map(count, tables)) > FEW * max(map(count, taken))


def _together(breakdown: Breakdown, *names: str) -> bool:
    """Return whether one module calls all of these operations."""
    return bool(set.intersection(*(_paths(breakdown, name) for name in names)))


def _paths(breakdown: Breakdown, name: str) -> set[str]:
    return set(breakdown.called[name].paths) if name in breakdown.called else set()


def count(shape: str) -> int:
    """Return the elements of a shape such as `80000×64`."""
    return math.prod(map(int, shape.split("×")))
