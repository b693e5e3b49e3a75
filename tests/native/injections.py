"""`explain` against what was hidden in a plug-in framework: drawn at random, 24 times, and 8 times nothing.

    python tests/native/injections.py [--draws 24] [--empty 8] [--seed 1] [--budget 30s]

Prints each draw, whether it was named first under the right row and column, and its size against the truth: the
seconds that were injected, or the gap of plain steps where it is no fixed time. Minutes, on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from tests.macro.injections import EXPECTED, injected  # noqa: E402

LAYERS = ("fc2", "fc3")
SHARES = (0.05, 0.30)


def explained(plugin: Path, threads: int, budget: str) -> dict:
    command = [sys.executable, "-m", "macro", "explain", "fcn-r", f"{plugin}:plugin", "numpy", "--runs", "1"]
    command += ["--threads", str(threads), "--budget", budget, "--json", "-", "-q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return json.loads(done.stdout)


def first(told: dict) -> dict | None:
    """What is named first, if anything is."""
    return next(iter(told["named"]), None)


def draw(rng: random.Random, what: str, budget: str) -> bool:
    layer, share = rng.choice(LAYERS), rng.uniform(*SHARES)
    row, columns, threads = EXPECTED[what]
    with tempfile.TemporaryDirectory() as folder:
        told = explained(injected(folder, what, layer, share), threads, budget)
    named = first(told)
    if named is None:
        print(f"{what:24} {layer} {share:5.1%}: nothing named", flush=True)
        return False
    right = named["column"] in columns and (row is None or named["row"] == row.format(layer=layer))
    size, true = named["a"] - named["b"], told["identity"][0].get("injected") or told["gap"]
    near = row is None or abs(size - true) <= max(0.1 * abs(true), told["resolution"])
    print(
        f"{what:24} {layer} {share:5.1%}: named {named['row']}, {named['column']}, {size * 1e3:.1f} ms; the truth "
        f"{true * 1e3:.1f} ms (resolution {told['resolution'] * 1e3:.1f} ms): "
        f"{'right' if right and near else 'WRONG' if not right else 'the size is off'}",
        flush=True,
    )
    return right and near


def main() -> int:
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--draws", type=int, default=24)
    made.add_argument("--empty", type=int, default=8)
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--budget", default="30s")
    arguments = made.parse_args()
    rng = random.Random(arguments.seed)
    kinds = [list(EXPECTED)[i % len(EXPECTED)] for i in range(arguments.draws)]
    found = sum([draw(rng, what, arguments.budget) for what in kinds])
    print(f"{found} of {arguments.draws} injections named first, under the right row and column, of the right size")
    quiet = 0
    for _ in range(arguments.empty):
        with tempfile.TemporaryDirectory() as folder:
            told = explained(injected(folder, None, "fc2", 0.0), 1, arguments.budget)
        named = first(told)
        quiet += named is None
        print("nothing injected:", "nothing named" if named is None else f"named {named['row']}, {named['column']}")
    print(f"{quiet} of {arguments.empty} runs without an injection name nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
