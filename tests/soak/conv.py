"""Is every kernel of a convolution right, in every pass of every layer of the texts, and on odd shapes?

Each is checked as before it is timed, on positive data too, with inputs that its rivals share. What was right stays in
a file, so that what is stopped or killed goes on behind it.
"""

from __future__ import annotations

import functools
import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import state
from kernels.catalog import find
from kernels.catalog import rows as catalog_rows
from kernels.devices import open_device
from kernels.doctor import facts
from kernels.errors import KernelError, LeftRunning, Unavailable, UsageError, WrongResult
from kernels.ops.conv.layouts import LAYOUTS
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.setting import Setting
from kernels.variant import Variant
from micro.command.figure import Figure
from micro.planning.contest import Case
from micro.planning.conv_layers import distinct_layers
from micro.worker import check as checking
from micro.worker.client import Died, ask
from micro.worker.guards import Bench
from micro.worker.messages import Message
from micro.worker.process import Workers
from micro.worker.turns import Drawn

if TYPE_CHECKING:
    from kernels.problem import Problem
    from micro.worker.host import Host

BATCHES = (1, 16)
SEARCHES = "patient"  # in the names of kernels whose plans take seconds to minutes a shape: a question of their own
ODD = {
    "filters of even edges": Conv(2, 6, 9, 8, 10, 2, 4),
    "even edges, padded more behind": Conv(2, 16, 9, 9, 16, 4, 4, pad_top=1, pad_left=1, pad_bottom=2, pad_right=2),
    "a filter for each channel": Conv(2, 16, 9, 11, 16, pad=1, groups=16),
    "two filters for each channel": Conv(2, 8, 9, 7, 16, pad=1, groups=8),
    "groups": Conv(2, 32, 9, 7, 48, pad=1, groups=2),
    "dilation": Conv(2, 16, 12, 11, 32, pad=2, dilation=2),
    "dilation and stride": Conv(2, 5, 17, 16, 7, stride=3, pad_top=2, pad_left=4, dilation=2),
    "stride 2 on 1×1": Conv(2, 32, 9, 10, 16, 1, 1, stride=2),
    "stride 3 on 2×2, which leaves pixels out": Conv(1, 3, 10, 11, 4, 2, 2, stride=3),
    "N = C = H = W = K": Conv(7, 7, 7, 7, 7, pad=1),
    "N = C = H = W = K, whole blocks": Conv(16, 16, 16, 16, 16, pad=1),
    "N = C = H = W = K = R = S": Conv(3, 3, 3, 3, 3, pad=1),
    "one pixel": Conv(2, 16, 1, 1, 16, 1, 1),
    "one pixel in its padding": Conv(2, 16, 1, 1, 32, pad=1),
    "one of everything": Conv(1, 1, 1, 1, 1, 1, 1),
    "padding beyond half a filter": Conv(2, 16, 5, 6, 16, pad=2),
    "padding beyond a filter": Conv(1, 3, 3, 2, 2, pad_top=5, pad_left=3, pad_bottom=4, pad_right=6),
    "one row": Conv(2, 4, 1, 40, 5, 1, 7, pad_left=3, pad_right=3),
    "higher than wide": Conv(2, 16, 31, 5, 16, 7, 1, pad_top=3, pad_bottom=3),
    "padded behind alone, at stride 2": Conv(2, 3, 16, 16, 16, stride=2, pad_bottom=1, pad_right=1),
    "four paddings": Conv(2, 16, 9, 8, 16, pad_top=0, pad_left=1, pad_bottom=2, pad_right=1),
    "a filter as large as its image": Conv(2, 8, 7, 7, 16, 7, 7),
    "tiles that overhang by one": Conv(3, 5, 13, 17, 19, pad=1),
}
PACKAGES = ("numpy", "scipy", "torch", "pyfftw", "onednn-cpu-gomp")
PATIENCE = 600.0  # seconds for one kernel: the first to need a library loads it, and some plan
EACH, RATE, LAUNCHES = 0.1, 20e9, 4  # seconds beside launches, FLOP/s and launches of a check: for the forecast
KNOWN = ("right", "unavailable")  # outcomes that are not asked for again
WORDS = (*KNOWN, "refused", "wrong", "crashed", "failed")  # refused: by a kernel's own rules
POSITIVE = Setting(data="uniform")  # a probe beside those of a convolution


def kernels() -> list[Variant[Conv]]:
    """Return those of a processor; together such as keep an input, because they need inputs of their own."""
    return sorted(
        (row for row in catalog_rows(Conv.op, "cpu") if SEARCHES not in row.name), key=lambda row: row.constant
    )


def layers(batch: int) -> Iterator[Conv]:
    """Yield the different layers of all networks, pass by pass."""
    for layer in distinct_layers(batch):
        yield from (replace(layer, direction=direction) for direction in PASSES)


def odd() -> Iterator[Conv]:
    """Yield the odd shapes in every layout that can hold them."""
    for shape in ODD.values():
        for layout in LAYOUTS:
            with suppress(UsageError):  # in blocks of channels no others fit
                placed = replace(shape, layout=layout)
                yield from (replace(placed, direction=direction) for direction in PASSES)


KINDS: dict[str, Callable[[], Iterator[Conv]]] = {
    "odd": odd,
    **{f"batch-{batch}": partial(layers, batch) for batch in BATCHES},
}


@dataclass(frozen=True)
class Record:
    """The file of this machine and these packages: a line for each start, and for each kernel that was asked on a
    problem, of which the last one counts."""

    path: Path
    lines: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # by problem and kernel

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
    kept, rows = record(), kernels()
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
    for row in rows:
        if not row.accepts(problem) and kept.outcome(problem, row) not in KNOWN:
            reply = outcome(workers, Case(problem, row.name, POSITIVE))
            kept.append({"problem": problem.name, "variant": row.name, **reply})


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


@dataclass(frozen=True, slots=True)
class Right:
    """A kernel whose answers are right."""

    share: float  # the worst error over its bound
    kernel: str | None  # as its library names it
    seconds: float  # of preparing and checking


@dataclass(frozen=True)
class CheckShared(Message[Right]):
    """A message to a worker: prepare a kernel, check it, keep nothing of it. Cases of the same problem and constant
    inputs are to follow each other: only the last inputs are kept."""

    case: Case
    seed: int

    def on(self, host: Host) -> Right:
        """Answer with what is right of it; raise as the two steps do in a run."""
        began, problem, setting = time.perf_counter(), self.case.problem, self.case.setting
        device = open_device(setting.device)
        variant = device.adopt(find(problem.op, self.case.variant))
        bind = variant.prepare(problem, device, setting)
        kernel, _ = bind(Bench(device, problem).views).kernel or variant.kernel()
        inputs = checking.Asked(_drawn(problem, self.seed, variant.constant), setting.data)
        passed, _ = checking.check(device, problem, variant, bind, self.seed, inputs)
        return Right(passed.error / passed.bound if passed.bound else 0.0, kernel, time.perf_counter() - began)


@functools.lru_cache(maxsize=1)
def _drawn(problem: Problem, seed: int, constant: tuple[str, ...]) -> Drawn:
    return Drawn(problem, seed, constant)
