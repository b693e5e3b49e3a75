"""Measurement of both `micro.ab` arms, in lockstep in pairs of fresh processes, and its run file."""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernels import suite
from kernels.devices import open_device
from kernels.errors import LaunchError, SuiteError, UsageError, stop_code
from micro.arms.results import NAMES, Case, Limits, contests, differing, held_back, sentences
from micro.command import environment as machine
from micro.command.outputs import Progress, open_outputs, say
from micro.command.session import open_run_file
from micro.planning.contest import ACROSS, parse
from micro.planning.options import Outputs
from micro.worker.client import Died
from micro.worker.json_child import JsonChild
from micro.worker.process import ERRORS, POOLS
from reports import record

TURN = 4  # rounds before the other arm has its turn


def module_in(repo: Path) -> str | None:
    """Return the module that serves an arm in a checkout or an installed package; None without any."""
    names = ("micro._arm", "kernelgap.micro._arm")
    return next((name for name in names if (repo / f"{name.replace('.', '/')}.py").is_file()), None)


class Arm(JsonChild):
    """A process that runs `micro._arm` of a checkout. Raises OSError where its Python cannot be started."""

    def __init__(self, letter: str, python: str, repo: Path, threads: int, device: str = "cpu") -> None:
        self.letter = letter
        # No path for an installed package: it would let another Python import the packages beside it.
        is_installed = suite.PREFIX and repo == suite.ROOT
        environment = {**os.environ} if is_installed else suite.environment(repo)
        # PYTHONSAFEPATH: else the current folder, which may be the other checkout, would come first.
        environment |= dict.fromkeys(POOLS, str(threads)) | {"PYTHONSAFEPATH": "1"}
        super().__init__([python, "-m", module_in(repo) or "micro._arm", device, str(threads)], environment)

    def call(self, do: str, *, patience: float, **given: Any) -> dict[str, Any]:
        """Send a request and return its answer. Raises the arm's error; Died for a crash or a hang."""
        self.send({"do": do, **given})
        answer = self.receive(patience)
        if "error" in answer and "kind" in answer:
            raise ERRORS.get(answer["kind"], LaunchError)(answer["error"])
        return answer


@dataclass(frozen=True)
class Place:
    """The location of an arm: its Python and its checkout."""

    python: str = sys.executable
    repo: Path = suite.ROOT


@dataclass(frozen=True)
class Duel:
    """A request to `micro.ab`: a command whose cases both arms measure, and the place of each arm."""

    words: tuple[str, ...]  # module and options of the command
    places: Mapping[str, Place]  # by the arm's letter
    limits: Limits
    outputs: Outputs


def run(duel: Duel) -> int:
    """Measure both arms, write the run file, print the report; return the exit code. Raises UsageError."""
    limits = duel.limits
    with ExitStack() as stack:
        opened = open_outputs(duel.outputs, stack)
        plans = _plans(duel)
        names, apart = _common(plans)
        threads = {parse(name).setting.threads for name in names}
        if len(threads) > 1:
            raise UsageError("--threads: only one value is allowed, since both arms' processes are pinned alike")
        environment = machine.environment([open_device("cpu")], machine.command_line())
        file = open_run_file(duel.outputs.output, environment)
        stack.callback(file.close)
        cases = [Case(name) for name in names]
        progress = stack.enter_context(Progress(limits.processes, duel.outputs.quiet))
        stopped, canary = _take(duel, cases, threads.pop(), progress)
        for contest in contests(cases, limits, canary, environment.command):
            file.append(contest)
        differs = differing(plans)
        data = {"a": plans[0], "b": plans[1], "differs": differs, "only": apart, **asdict(limits)}
        file.append(record.Note("ab", data))
        tripped = [c for c in cases if held_back(c, limits, len(cases))]
        file.append(record.Note("answer", {"sentences": sentences(file.run, limits, differs, apart, tripped)}))
        failed = say(file.run, duel.outputs, opened)
    if stopped or failed:
        return stopped or failed
    return int(bool(tripped) or any(r.status in ("wrong", "failed") for r in file.run.results))


def _plans(duel: Duel) -> list[dict[str, Any]]:
    """Return the cases and the environment of each arm. Raises UsageError."""
    plans = []
    for letter in NAMES:
        with _arm(duel, letter, 1) as arm:
            try:
                plans.append(arm.call("plan", words=list(duel.words), patience=60.0))
            except SuiteError as error:
                raise UsageError(f"arm {letter}: {error}") from None
    return plans


@contextmanager
def _arm(duel: Duel, letter: str, threads: int) -> Iterator[Arm]:
    place = duel.places[letter]
    try:
        arm = Arm(letter, place.python, place.repo.resolve(), threads)
    except OSError as error:
        raise UsageError(f"--python-{letter} {place.python}: {error.strerror}") from None
    try:
        yield arm
    finally:
        arm.close()


def _common(plans: Sequence[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the cases that both arms can measure, and a message on each other case. Raises UsageError."""
    by_name = [{case["name"]: case["skip"] for case in plan["cases"]} for plan in plans]
    common = [name for name, skip in by_name[0].items() if not skip and by_name[1].get(name, "") is None]
    apart = []
    for name in dict.fromkeys([*by_name[0], *by_name[1]]):
        for letter, skips in zip(NAMES, by_name, strict=True):
            if name not in skips:
                apart.append(f"{name}: not in arm {letter}")
            elif skips[name]:
                apart.append(f"{name}: skipped in arm {letter}: {skips[name]}")
    if not common:
        raise UsageError(f"no case that both arms can measure: {'; '.join(apart[:3]) or 'no case selected'}")
    return common, apart


class Fails(Exception):
    """Failure of a request to an arm: the arm's letter, and its error."""

    def __init__(self, letter: str, error: SuiteError) -> None:
        self.letter, self.error = letter, error


def _ask(arm: Arm, do: str, patience: float, **given: Any) -> Any:
    try:
        return arm.call(do, patience=patience, **given)
    except SuiteError as error:
        raise Fails(arm.letter, error) from None


def _take(duel: Duel, cases: Sequence[Case], threads: int, progress: Progress) -> tuple[int, dict[str, list[float]]]:
    """Run all pairs of processes; return the exit code (0: not interrupted), and canaries per pair."""
    canary: dict[str, list[float]] = {}
    limits = duel.limits
    chance = random.Random(secrets.randbits(31))
    for number in range(limits.processes):
        progress.begin(f"process {number + 1} of {limits.processes} per arm, {len(cases)} cases")
        slice_ = limits.seconds / limits.processes / len(cases)
        try:
            canaries = _pair(duel, cases, threads, slice_, chance, first=number == 0)
        except (KeyboardInterrupt, SystemExit) as stop:
            print(f"micro.ab: interrupted after {number} of {limits.processes} processes per arm", file=sys.stderr)
            for case in cases:  # the pair in flight
                del case.wall[number:], case.cpu[number:]
            return stop_code(stop), canary
        for name, seconds in canaries.items():
            canary.setdefault(name, []).append(seconds)
    return 0, canary


def _pair(
    duel: Duel, cases: Sequence[Case], threads: int, seconds: float, chance: random.Random, *, first: bool
) -> dict[str, float]:
    """Measure every case in a fresh process of each arm; return canary medians in seconds.

    A case that fails is left out from then on; after a crash both processes are restarted."""
    canaries: dict[str, float] = {}
    with ExitStack() as stack:
        arms: list[Arm] = []
        for case in chance.sample(list(cases), len(cases)):
            if case.failed:
                continue
            arms = arms or [stack.enter_context(_arm(duel, letter, threads)) for letter in NAMES]
            try:
                canaries = _visit(arms, case, seconds, chance, first=first, canary=not canaries) or canaries
            except Fails as fault:
                case.failed[fault.letter] = (type(fault.error).__name__, str(fault.error))
                if isinstance(fault.error, Died):
                    stack.close()
                    arms = []
    return canaries


def _visit(
    arms: Sequence[Arm], case: Case, seconds: float, chance: random.Random, *, first: bool, canary: bool
) -> dict[str, float]:
    """Measure one case in one pair of processes; return the canary medians, {} without `canary`.

    Placement and launches are alike in both arms, which take turns in random order."""
    seed = chance.getrandbits(31)
    about = [_ask(arm, "prepare", 300.0, case=case.name, seed=seed if first else None) for arm in arms]
    calls = [_ask(arm, "open", 120.0, case=case.name, seed=seed)["calls"] for arm in arms]
    least = [min(both) for both in zip(*calls, strict=True)]
    for arm in arms:
        settled = _ask(arm, "settle", 120.0, calls=least, visit=ACROSS)
    case.about = case.about or about
    case.launches, case.visit = settled["launches"], settled["visit"]
    case.queues = settled.get("queues", True)  # older checkouts do not answer it
    rounds = TURN if 8 * TURN * settled["round"] < seconds else 1
    wall: list[list[float]] = [[], []]
    cpu: list[list[float]] = [[], []]
    canaries: dict[str, float] = {}
    began, at = time.monotonic(), 0
    while at < 2 * rounds or time.monotonic() < began + seconds:
        for i in chance.sample((0, 1), 2):
            sings, patience = canary and at == 0, 60.0 + 20 * seconds
            look = _ask(arms[i], "look", patience, first=at, rounds=rounds, canary=sings)
            wall[i] += look["wall"]
            cpu[i] += look["cpu"]
            case.lost += look["lost"]
            canaries = look["canary"] or canaries
        at += rounds
    case.seconds += time.monotonic() - began
    case.wall.append(wall)
    case.cpu.append(cpu)
    for arm in arms:
        _ask(arm, "close", 60.0)
    return canaries
