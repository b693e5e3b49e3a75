"""Reports of ten cases beside two loops that keep the cores busy: each says so, advises nothing, names the true cause.

Each document stays in a file: what is stopped goes on with the case that was in flight."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from micro.command.figure import Promise
from tests.cases import judgment
from tests.cases.court import Case, cases, explained
from tests.soak import kept
from tests.soak.gates import LOOP

NAMES = "anomaly attention broadcast casts list_of_arrays low_rank scatter small_parameters sorted_scores vocabulary"
LOOPS = 2


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
            ran = explained(case, part)
        if ran.returncode:
            raise kept.Failed(ran)
        part.replace(path)
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document
