"""Gates of two scripts: equal ones, quiet and beside a busy loop, must pass; one slower by a tenth must fail.

Each outcome stays in a file: what is stopped goes on with the pair that was in flight."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Generator, Iterator
from dataclasses import asdict
from pathlib import Path

from macro.explaining import gate
from macro.running.script_request import PROCESSES
from macro.watching import load, plain
from macro.watching.script import Script
from micro.command.figure import Promise
from reports import stats
from tests.soak import kept

EQUAL, RED = 50, 1  # pairs of equal scripts, promised: at most so many fail
SLOWER, CAUGHT = 20, 18  # pairs with a slowdown, promised: at least so many fail
SHARE, SECONDS = 0.05, 3.5  # of the gate; of each pair of processes
PARTS, MORE = 10, 11  # forward and backward passes of a step of about 5 ms, and of one slower by a tenth
TEXT = """
import torch

torch.manual_seed(0)
torch.set_num_threads(1)
net = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
x, y = torch.randn(128, 256), torch.randint(0, 10, (128,))
while True:
    optimizer.zero_grad()
    for _ in range({parts}):
        torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
LOOP = (sys.executable, "-c", "while True: pass")


def equal() -> Iterator[Promise]:
    """Yield the gate's outcome for each pair of equal scripts, and how many fail."""
    failed = sum((yield from _outcomes("equal", EQUAL, PARTS)))
    yield Promise("equal pairs that fail", f"{failed} of {EQUAL}", f"at most {RED}", failed <= RED)


def busy() -> Iterator[Promise]:
    """Yield as `equal` does, beside a loop that keeps a core busy."""
    with subprocess.Popen(LOOP) as loop:
        try:
            failed = sum((yield from _outcomes("busy", EQUAL, PARTS)))
        finally:
            loop.kill()
    yield Promise("equal pairs that fail beside a busy loop", f"{failed} of {EQUAL}", f"at most {RED}", failed <= RED)


def slower() -> Iterator[Promise]:
    """Yield the outcome for each pair with a slowdown of a tenth, and how many fail."""
    failed = sum((yield from _outcomes("slower", SLOWER, MORE)))
    promised = f"at least {CAUGHT}"
    yield Promise("pairs slower by a tenth that fail", f"{failed} of {SLOWER}", promised, failed >= CAUGHT)


def _outcomes(name: str, count: int, parts: int) -> Generator[Promise, None, list[bool]]:
    """Yield the outcome of each pair of scripts, kept or measured now; return which fail."""
    folder, failed = kept.folder(f"soak-gate-{name}"), []
    scripts = []
    for side, passes in (("old", PARTS), ("new", parts)):
        path = folder / f"{side}.py"
        path.write_text(TEXT.format(parts=passes), "utf-8")
        scripts.append(Script(path, python=Path(sys.executable)))
    for number in range(count):
        file = folder / f"{number + 1:02}.json"
        if not file.is_file():
            _measure(scripts, number, file)
        document = json.loads(file.read_text("utf-8"))
        failed.append(document["outcome"] == "failed")
        ratios = ", ".join(f"{ratio:.3f}" for ratio in document["ratios"])
        text = f"{document['sentence']} Ratios by pair of processes: {ratios}; {document['taken']:.0%} of time lost."
        yield Promise(f"{name} {number + 1} of {count}", text, "", True)
    return failed


def _measure(scripts: list[Script], number: int, file: Path) -> None:
    """Run the pairs of processes of one gate, and write its outcome."""
    pairs = [plain.run(scripts, SECONDS, PROCESSES * number + i) for i in range(PROCESSES)]
    document = asdict(gate.judged(pairs, ["old.py", "new.py"], SHARE))
    document["ratios"] = [math.exp(stats.estimate(x).center) for x in gate.logs(pairs)]
    document["taken"] = load.taken([block for pair in pairs for block in pair.load]) or 0.0
    part = file.with_suffix(".part")
    part.write_text(json.dumps(document), "utf-8")
    part.replace(file)
