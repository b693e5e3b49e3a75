"""Reports of ten cases beside two loops that keep the cores busy: each says so, advises nothing, names the true cause.

Each document stays in a file: what is stopped goes on with the case that was in flight."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kernels import suite
from micro.command.figure import Promise
from tests.cases import judgment
from tests.cases.court import Case, cases
from tests.soak import kept

NAMES = "anomaly attention broadcast casts list_of_arrays low_rank scatter small_parameters sorted_scores vocabulary"
BUDGET, LOOPS = "20s", 2
LOOP = (sys.executable, "-c", "while True: pass")


def figures() -> Iterator[Promise]:
    """Yield what is wrong with each report, and how many are right."""
    chosen = [case for case in cases() if case.name in NAMES.split()]
    right = 0
    for case in chosen:
        wrong = faults(case, _document(case))
        right += not wrong
        yield Promise(f"{case.name} beside {LOOPS} loops", "; ".join(wrong) or "right", "", True)
    yield Promise(f"reports beside {LOOPS} loops", f"{right} of {len(chosen)}", "all", right == len(chosen))


def faults(case: Case, document: dict[str, Any]) -> list[str]:
    """Return what a report from a busy machine lacks or should not say."""
    sentences = document["sentences"]
    wrong = [] if sentences[0].startswith("This machine was busy") else ["does not say that the machine was busy"]
    wrong += [x for x in sentences if x.startswith("To try: ") or "measured here" in x]
    named, wanted = judgment.largest(case.cause, document)[0], [str(x) for x in case.cause.values()]
    return wrong + ([] if named in wanted else [f"first: {named}, not {wanted[0]}"])


def _document(case: Case) -> dict[str, Any]:
    """Return the document of a case's report, kept or made now."""
    path = kept.folder("soak-busy") / f"{case.name}.json"
    if not path.is_file():
        part = path.with_suffix(".part")
        with ExitStack() as stack:
            for loop in [subprocess.Popen(LOOP) for _ in range(LOOPS)]:
                stack.callback(loop.wait)
                stack.callback(loop.kill)
            _explain(case.script, part)
        part.replace(path)
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def _explain(script: Path, document: Path) -> None:
    words = suite.child("macro", "explain", str(script), "--budget", BUDGET, "-q", "--json", str(document))
    ran = subprocess.run(words, env=suite.environment(), capture_output=True, text=True, check=False)
    if ran.returncode:
        raise kept.Failed(ran)
