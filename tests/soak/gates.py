"""Gates of equal scripts and kernels, quiet and beside a busy loop, and of scripts slower by a tenth.

Each outcome stays in a file: what is stopped goes on with the pair that was in flight."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from kernels import suite
from macro.explaining import gate
from macro.running.script_request import PROCESSES
from macro.watching import load, plain
from macro.watching.script import Script
from micro.command.figure import Promise
from reports import gate as gates
from reports import stats, store
from tests.soak import kept

SCRIPTS, KERNELS, RED = 25, 25, 1  # pairs of equal scripts and of equal kernels, promised: at most so many fail …
PASS = 45  # … and, on a quiet machine, at least so many pass
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
PRODUCTS = """
import numpy as np


def old(problem, a, b, c):
    np.matmul(a, b, out=c)


def new(problem, a, b, c):
    np.matmul(a, b, out=c)
"""
GEMM = ("--m", "256", "--n", "256", "--k", "256", "--gate", "5%")
LOOP = (sys.executable, "-c", "while True: pass")


def equal() -> Iterator[Promise]:
    """Yield the gate's outcome for each pair of equal scripts and kernels, how many fail, and how many pass."""
    outcomes = yield from _equal("equal")
    yield _few_fail("equal pairs that fail", outcomes)
    passed = outcomes.count("passed")
    yield Promise("equal pairs that pass", f"{passed} of {len(outcomes)}", f"at least {PASS}", passed >= PASS)


def busy() -> Iterator[Promise]:
    """Yield the outcomes beside a loop that keeps a core busy, and how many fail; none needs to pass."""
    with subprocess.Popen(LOOP) as loop:
        try:
            outcomes = yield from _equal("busy")
        finally:
            loop.kill()
    yield _few_fail("equal pairs that fail beside a busy loop", outcomes)


def _equal(name: str) -> Generator[Promise, None, list[str]]:
    outcomes = yield from _outcomes(name, SCRIPTS, partial(_of_scripts, _scripts(name, PARTS)))
    return outcomes + (yield from _outcomes(f"{name}-kernels", KERNELS, _of_kernels))


def _few_fail(title: str, outcomes: list[str]) -> Promise:
    failed = outcomes.count("failed")
    return Promise(title, f"{failed} of {len(outcomes)}", f"at most {RED}", failed <= RED)


def slower() -> Iterator[Promise]:
    """Yield the outcome for each pair with a slowdown of a tenth, and how many fail."""
    outcomes = yield from _outcomes("slower", SLOWER, partial(_of_scripts, _scripts("slower", MORE)))
    failed = outcomes.count("failed")
    text = f"{failed} of {SLOWER}"
    yield Promise("pairs slower by a tenth that fail", text, f"at least {CAUGHT}", failed >= CAUGHT)


def _scripts(name: str, parts: int) -> list[Script]:
    """Write two scripts with so many passes in the second's step."""
    scripts = []
    for side, passes in (("old", PARTS), ("new", parts)):
        path = kept.folder(f"soak-gates-{name}") / f"{side}.py"
        path.write_text(TEXT.format(parts=passes), "utf-8")
        scripts.append(Script(path, python=Path(sys.executable)))
    return scripts


def _outcomes(
    name: str, count: int, measure: Callable[[int, Path], dict[str, Any]]
) -> Generator[Promise, None, list[str]]:
    """Yield the outcome of each gate, kept or measured now; return them all."""
    folder, outcomes = kept.folder(f"soak-gates-{name}"), []
    for number in range(count):
        file = folder / f"{number + 1:02}.json"
        if not file.is_file():
            part = file.with_suffix(".part")
            part.write_text(json.dumps(measure(number, folder)), "utf-8")
            part.replace(file)
        document = json.loads(file.read_text("utf-8"))
        outcomes.append(document["outcome"])
        yield Promise(f"{name} {number + 1} of {count}", document["text"], "", True)
    return outcomes


def _of_scripts(scripts: list[Script], number: int, folder: Path) -> dict[str, Any]:
    """Run the pairs of processes of one gate; return its outcome."""
    pairs = [plain.run(scripts, SECONDS, PROCESSES * number + i) for i in range(PROCESSES)]
    judged = gate.judged(pairs, ["old.py", "new.py"], SHARE)
    ratios = ", ".join(f"{math.exp(stats.estimate(x).center):.3f}" for x in gate.logs(pairs))
    lost = load.taken([block for pair in pairs for block in pair.load]) or 0.0
    text = f"{judged.sentence} Ratios by pair of processes: {ratios}; {lost:.0%} of time lost."
    return {"outcome": judged.outcome, "text": text}


def _of_kernels(number: int, folder: Path) -> dict[str, Any]:
    """Run the gate of two equal kernels; return its outcome."""
    products, path = folder / "mine.py", folder / f"{number + 1:02}.jsonl"
    products.write_text(PRODUCTS, "utf-8")
    path.unlink(missing_ok=True)
    words = suite.child("micro.gemm", *GEMM, "--variant", f"{products}:old,{products}:new", "-q", "-o", str(path))
    ran = subprocess.run(words, cwd=folder, env=suite.environment(), capture_output=True, text=True, check=False)
    if ran.returncode not in gates.CODES.values() or not path.exists():
        raise kept.Failed(ran)
    note = next(x for x in reversed(store.read(path).notes) if x.topic == gates.TOPIC)
    return {"outcome": note.data["outcome"], "text": note.data["sentences"][0]}
