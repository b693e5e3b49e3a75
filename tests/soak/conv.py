"""Is every kernel of a convolution right, in every pass of every layer of the texts, and on odd shapes?

Each is checked as before it is timed, on positive data too, with inputs that its rivals share. What was right stays in
a file, so that what is stopped or killed goes on behind it.
"""

from __future__ import annotations

import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kernels import state
from kernels.devices import open_device
from kernels.doctor import facts
from kernels.errors import KernelError, LeftRunning, Unavailable, WrongResult
from kernels.ops.conv.problem import Conv
from kernels.setting import Setting
from kernels.variant import Variant
from micro.command.figure import Figure
from micro.planning.contest import Case
from micro.worker.client import Died, ask
from micro.worker.process import Workers
from tests.soak import conv_checks
from tests.soak.conv_checks import CheckShared

KINDS: dict[str, Callable[[], Iterator[Conv]]] = {
    "odd": conv_checks.odd,
    **{f"batch-{batch}": partial(conv_checks.layers, batch) for batch in conv_checks.BATCHES},
}
PACKAGES = ("numpy", "scipy", "torch", "pyfftw", "onednn-cpu-gomp")
PATIENCE = 600.0  # seconds for one kernel: the first to need a library loads it, and some plan
EACH, RATE, LAUNCHES = 0.1, 20e9, 4  # seconds beside launches, FLOP/s and launches of a check: for the forecast
KNOWN = ("right", "unavailable")  # outcomes that are not asked for again
WORDS = (*KNOWN, "refused", "wrong", "crashed", "failed")  # refused: by a kernel's own rules
POSITIVE = Setting(data="uniform")  # a probe beside those of a convolution


@dataclass(frozen=True)
class Record:
    """The file of this machine and these packages: a line for each start, for each kernel that was asked on a problem,
    and for all that refuse it by their own rules; the last one counts."""

    path: Path
    lines: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # by problem and kernel
    refused: dict[str, dict[str, list[str]]] = field(default_factory=dict)  # by problem and reason, kernels

    def __post_init__(self) -> None:
        """Read what is there; end a line that was cut short."""
        text = self.path.read_text("utf-8") if self.path.exists() else ""
        if text and not text.endswith("\n"):
            self._write("")
        for line in text.splitlines():
            try:
                self._keep(json.loads(line))
            except ValueError:
                continue

    def _keep(self, line: dict[str, Any]) -> None:
        if "variant" in line:
            self.lines[line["problem"], line["variant"]] = line
        elif "refused" in line:
            self.refused[line["problem"]] = line["refused"]

    def append(self, line: dict[str, Any]) -> None:
        """Write a line; it is in the file when this returns."""
        self._write(json.dumps(line, ensure_ascii=False))
        self._keep(line)

    def _write(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as stream:
            print(text, file=stream)

    def outcome(self, problem: Conv, row: Variant[Conv]) -> str | None:
        """Return the last outcome of a kernel on a problem, if any."""
        return self.lines.get((problem.name, row.name), {}).get("outcome")


def record() -> Record:
    """Return the record of this processor and what is installed; which cores are free does not matter."""
    every = facts.facts([open_device("cpu")])
    here = {name: every["device"][name] for name in ("model", "isa")}
    here |= {name: every[name] for name in ("compiler", "python", "variables")}
    here["packages"] = {name: _version(name) for name in PACKAGES}
    folder = state.folder() / "soak-conv"
    folder.mkdir(exist_ok=True)
    kept = Record(folder / f"{facts.digest(here)}.jsonl")
    kept.append({"head": here | {"commit": every["commit"]}})
    return kept


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def figures(name: str) -> Iterator[Figure]:
    """Yield how much of a kind there is to do; each layer or shape, the cheapest first; and all of them."""
    kept, rows = record(), conv_checks.kernels()
    missing = {row.name: why for row in rows if (why := row.missing())}
    if missing:
        yield Figure("not installed", "; ".join(f"{name}: {why}" for name, why in missing.items()), "", True)
    here = [row for row in rows if row.name not in missing]
    problems = sorted(KINDS[name](), key=lambda problem: sum(seconds(problem, row) for row in here))
    yield forecast(name, problems, here, kept)
    with Workers() as workers:
        for shape, passes in _together(problems).items():
            for problem in passes:
                check(workers, problem, here, kept)
            yield judged(shape.name, passes, here, kept)
    yield judged(f"all of {name}", problems, here, kept)


def _together(problems: Iterable[Conv]) -> dict[Conv, list[Conv]]:
    """Return the passes of each layer."""
    by_layer: dict[Conv, list[Conv]] = {}
    for problem in problems:
        by_layer.setdefault(replace(problem, direction="forward"), []).append(problem)
    return by_layer


def seconds(problem: Conv, row: Variant[Conv]) -> float:
    """Return what a check takes, about; nothing where the kernel refuses."""
    return 0.0 if row.accepts(problem) else EACH + LAUNCHES * row.executed(problem).flops / RATE


def forecast(name: str, problems: Sequence[Conv], rows: Sequence[Variant[Conv]], kept: Record) -> Figure:
    """Return how many layers, kernels and checks there are, how many are left, and about how long they take."""
    every = [(problem, row) for problem in problems for row in rows if not row.accepts(problem)]
    left = [seconds(problem, row) for problem, row in every if kept.outcome(problem, row) not in KNOWN]
    distinct = {replace(problem, n=1, direction="forward", layout="nchw") for problem in problems}
    text = (
        f"{len(distinct)} distinct, {len(problems)} with their batches, layouts and passes, {len(rows)} kernels: "
        f"{len(left)} of {len(every)} checks are left, about {sum(left) / 60:.0f} min; they stay in {kept.path}"
    )
    return Figure(name, text, "", True)


def check(workers: Workers, problem: Conv, rows: Sequence[Variant[Conv]], kept: Record) -> None:
    """Check every kernel on a problem, but for those that are known."""
    refused: dict[str, list[str]] = {}
    for row in rows:
        if why := row.accepts(problem):
            refused.setdefault(why, []).append(row.name)
        elif kept.outcome(problem, row) not in KNOWN:
            reply = outcome(workers, Case(problem, row.name, POSITIVE))
            kept.append({"problem": problem.name, "variant": row.name, **reply})
    if kept.refused.get(problem.name, {}) != refused:
        kept.append({"problem": problem.name, "refused": refused})


def outcome(workers: Workers, case: Case) -> dict[str, Any]:
    """Return the outcome of a check in a worker; a crash costs its kernel alone."""
    began, key = time.monotonic(), workers.key(case)
    try:
        right = ask(workers.get(key), CheckShared(case, zlib.crc32(case.problem.name.encode())), PATIENCE)
        share, seconds = (float(f"{number:.3g}") for number in (right.share, right.seconds))
        return {"outcome": "right", "share": share, "kernel": right.kernel, "seconds": seconds}
    except (Unavailable, KernelError) as error:
        if isinstance(error, Died | LeftRunning):
            workers.drop(key)
        return {"outcome": _outcome(error), "reason": str(error), "seconds": round(time.monotonic() - began, 2)}


def _outcome(error: Exception) -> str:
    words = {Unavailable: "unavailable", Died: "crashed", WrongResult: "wrong"}
    return next((word for kind, word in words.items() if isinstance(error, kind)), "failed")


def judged(name: str, problems: Sequence[Conv], rows: Sequence[Variant[Conv]], kept: Record) -> Figure:
    """Return how many are right, which is nearest to its bound, and by name those that are not right."""
    accepted = [(problem, row.name) for problem in problems for row in rows if not row.accepts(problem)]
    lines = [line for problem, name in accepted if (line := kept.lines.get((problem.name, name)))]
    counts = Counter(line["outcome"] for line in lines)
    counts["refused"] = len(problems) * len(rows) - len(accepted)
    parts = [f"{counts[word]} {word}" for word in WORDS if counts[word]]
    if counts["right"]:
        worst = max((line for line in lines if line["outcome"] == "right"), key=lambda line: float(line["share"]))
        parts.append(f"at most {worst['share']:.2g} of its bound, {worst['variant']} on {worst['problem']}")
    bad = [line for line in lines if line["outcome"] not in KNOWN]
    parts += [f"{line['variant']} on {line['problem']} {line['outcome']}: {line['reason']}" for line in bad]
    return Figure(name, "; ".join(parts), "every answer right or refused with its reason", not bad)
