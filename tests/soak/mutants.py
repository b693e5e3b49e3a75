"""A seeded sample of mutants, each judged by the tests that reach its line: `python -m tests.soak.mutants --help`.

`draw` writes the sample, `cover` runs the tests once and notes which reach a mutated line, `judge` runs each mutant
that has no verdict yet in a copy of HEAD; `move` writes the same mutations where the code is now, and names those that
are not found again. Sample and verdicts are JSON and kept; the map of lines to tests is made anew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.soak.mutation import Mutation, mutations

ROOT = Path(__file__).parents[2]
SECONDS = 150.0  # of tests for one mutant, by their durations under tracing, shortest first
PATIENCE = 400.0  # seconds; a mutant that takes longer is killed
PLUGIN = """
import os, pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    os.environ["MUTANTS_TEST"] = item.nodeid
    yield
"""
HOOK = """
import os; r = os.environ.get("MUTANTS_REACH"); r and exec(compile(open(r).read(), r, "exec"), {"__name__": r})
"""


def draw(count: int, seed: int) -> list[Mutation]:
    """Return a sample of all mutations of the product, alike likely."""
    return sorted(random.Random(seed).sample(list(mutations(ROOT)), count), key=lambda x: (x.file, x.line, x.column))


def cover(file: Path, folder: Path, processes: str) -> None:
    """Run the tests that are not slow, their child processes too, and note which of them run a mutated line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines: dict[str, list[int]] = defaultdict(list)
    for mutant, _ in read(file):
        lines[str(ROOT / mutant.file)].append(mutant.line)
    (folder / "lines.json").write_text(json.dumps(lines))
    (folder / "noted").write_text("")
    (folder / "mutants_plugin.py").write_text(PLUGIN)
    hook = Path(sysconfig.get_path("purelib")) / "mutants.pth"
    hook.write_text(HOOK)
    names = {"REACH": ROOT / "tests/soak/reach.py", "LINES": folder / "lines.json", "REACHED": folder / "noted"}
    environment = {f"MUTANTS_{name}": str(path) for name, path in names.items()} | {"PYTHONPATH": f"{folder}:{ROOT}"}
    words = ["-p", "mutants_plugin", "-n", processes, "--dist", "worksteal", "-m", "not slow", "--durations=0", "-vv"]
    try:
        command = [sys.executable, "-m", "pytest", *words]
        with (folder / "log").open("w") as log:
            subprocess.run(command, cwd=ROOT, env=os.environ | environment, stdout=log, check=False)
    finally:
        hook.unlink()
    (folder / "reached.json").write_text(json.dumps(reached(folder)))


def reached(folder: Path) -> dict[str, Any]:
    """Return the seconds of each test, and by file and line the tests that reach it and passed."""
    seconds: dict[str, float] = defaultdict(float)
    failed = set()
    for line in (folder / "log").read_text().splitlines():
        words = line.split()
        if line.startswith("FAILED "):
            failed.add(line.removeprefix("FAILED ").split(" - ")[0])
        if len(words) == 3 and words[0].endswith("s") and words[1] in ("setup", "call", "teardown"):
            seconds[words[2]] += float(words[0][:-1])
    files: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for text in (folder / "noted").read_text().splitlines():
        test, file, number = json.loads(text)
        of_line = files[str(Path(file).relative_to(ROOT))][str(number)]
        of_line += [test] if test and test not in (*of_line, *failed) else []
    return {"seconds": seconds, "files": files}


def tests_of(mutant: Mutation, known: dict[str, Any]) -> list[str]:
    """Return the tests that judge a mutant, shortest first; of a line that runs at import, those of its file."""
    lines = known["files"].get(mutant.file, {})
    tests = set(lines.get(str(mutant.line), ()))
    if not tests and str(mutant.line) in lines:
        tests = set(lines["0"])
    seconds, chosen, total = known["seconds"], [], 0.0
    for test in sorted(tests, key=lambda test: (seconds.get(test, 0.0), test)):
        total += seconds.get(test, 0.0)
        if chosen and total > SECONDS:
            break
        chosen.append(test)
    return chosen


@contextmanager
def copies(count: int) -> Iterator[list[Path]]:
    """Worktrees of HEAD, removed at the end."""
    with tempfile.TemporaryDirectory() as folder:
        places = [Path(folder) / str(i) for i in range(count)]
        for place in places:
            subprocess.run(["git", "worktree", "add", "-q", "--detach", str(place), "HEAD"], cwd=ROOT, check=True)
        try:
            yield places
        finally:
            for place in places:
                subprocess.run(["git", "worktree", "remove", "--force", str(place)], cwd=ROOT, check=False)


def verdict(mutant: Mutation, tests: Sequence[str], place: Path) -> str:
    """Return "killed", "survived" or "not reached"."""
    if not tests:
        return "not reached"
    original = mutant.apply(place)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:xdist", *tests]
    variables = {"PYTHONPATH": str(place), "PYTHONDONTWRITEBYTECODE": ""}  # compiled once, not for each mutant
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True}
    try:
        run = subprocess.Popen(command, cwd=place, env=os.environ | variables, **quiet)
        try:
            return "killed" if run.wait(PATIENCE) else "survived"
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait()
            return "killed"
    finally:
        (place / mutant.file).write_text(original, "utf-8")


def judge(file: Path, folder: Path, jobs: int) -> None:
    """Judge each mutant that has no verdict; each is written as soon as it is known."""
    known, sample, lock = json.loads((folder / "reached.json").read_text()), read(file), threading.Lock()
    left = [i for i, (_, judged) in enumerate(sample) if judged is None]
    with copies(jobs) as places, ThreadPoolExecutor(jobs) as pool:

        def work(i: int) -> None:
            mutant = sample[i][0]
            with lock:
                place = places.pop()
            outcome = verdict(mutant, tests_of(mutant, known), place)
            with lock:
                places.append(place)
                sample[i] = mutant, outcome
                write(file, sample)
                print(f"{mutant.file}:{mutant.line} {mutant.before} -> {mutant.after}: {outcome}", flush=True)

        list(pool.map(work, left))
    outcomes = [judged for _, judged in sample]
    print({outcome: outcomes.count(outcome) for outcome in sorted(set(outcomes), key=str)})


def moved(mutant: Mutation, everything: Sequence[Mutation]) -> Mutation | None:
    """Return the same mutation where the code is now: in the most similar place of those with the same text."""

    def alike(other: Mutation) -> tuple[bool, bool, bool, int]:
        same = other.file == mutant.file, other.function.split(".")[-1] == mutant.function.split(".")[-1]
        return all(same), *same, -abs(other.line - mutant.line)

    same_text = [x for x in everything if mutant_text(x) == mutant_text(mutant)]
    return max(same_text, key=alike, default=None)


def mutant_text(mutant: Mutation) -> Mutation:
    """Return what is compared of a mutation: its texts."""
    return replace(mutant, file="", function="", line=0, column=0)


def read(file: Path) -> list[tuple[Mutation, str | None]]:
    """Return mutants and their verdicts."""
    records = json.loads(file.read_text("utf-8"))
    return [(Mutation(**{k: v for k, v in x.items() if k != "verdict"}), x["verdict"]) for x in records]


def write(file: Path, sample: Sequence[tuple[Mutation, str | None]]) -> None:
    """Write mutants and their verdicts, a line each."""
    lines = ",\n".join(json.dumps(asdict(mutant) | {"verdict": judged}) for mutant, judged in sample)
    file.write_text(f"[\n{lines}\n]\n", "utf-8")


def main() -> int:
    """Run the step that the first word names."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("step", choices=("draw", "cover", "judge", "move"))
    options.add_argument("file", type=Path, help="the sample; of move the one to write")
    options.add_argument("--folder", type=Path, default=ROOT / "build/mutants", help="for the map of lines to tests")
    options.add_argument("--before", type=Path, help="move: the sample that was judged before")
    options.add_argument("--count", type=int, default=400)
    options.add_argument("--seed", type=int, default=18)
    options.add_argument("--jobs", type=int, default=2)
    words = options.parse_args()
    if words.step == "draw":
        write(words.file, [(mutant, None) for mutant in draw(words.count, words.seed)])
    elif words.step == "cover":
        cover(words.file, words.folder.resolve(), str(words.jobs))
    elif words.step == "judge":
        judge(words.file, words.folder, words.jobs)
    else:
        everything = list(mutations(ROOT))
        pairs = [(mutant, moved(mutant, everything)) for mutant, _ in read(words.before)]
        write(words.file, [(now, None) for _, now in pairs if now])
        for mutant, now in pairs:
            if now is None:
                print(f"not found: {mutant.file}:{mutant.line} {mutant.function}: {mutant.before} -> {mutant.after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
