"""Evidence of a wrong answer: where, how many, how far off; with --keep-wrong the operands."""

from __future__ import annotations

import itertools
import json
import re
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.problem import Array, Evidence
    from micro.planning.contest import Case

DECADES = (0.5, 1.0, 2.0, 10.0, 1e2, 1e3, 1e4, 1e6)  # edges between the bins of the histogram, in units of the bound
LONGEST = 100  # characters of a file's name


@dataclass(frozen=True)
class Found:
    """A wrong answer: its probe, inputs and outputs by name, and the comparison of the wrong output."""

    probe: str
    x: dict[str, Array]
    got: dict[str, Array]
    evidence: Evidence


def how_far(error: Array, bound: Array) -> str:
    """Format the largest error of wrong values, in units of the bound."""
    import numpy as np

    if np.isnan(error).any():
        return "are NaN"
    if not bound.all():
        return "differ from the exact result"
    with np.errstate(over="ignore"):
        worst = float(np.max(error / bound))
    return f"have errors up to {worst:.3g} times the tolerance of its precision"


def beside(run_file: Path) -> Path:
    """Return the evidence folder of a run file."""
    return run_file.with_name(run_file.name.removesuffix(".jsonl") + ".wrong")


def path(folder: Path, case: Case) -> Path:
    """Return the path of a case's evidence file, from the shortened case name and its checksum."""
    slug = re.sub(r"[^A-Za-z0-9_.-]+", "_", case.name.replace("/", "-"))
    return folder / f"{slug[:LONGEST]}-{zlib.crc32(case.name.encode()):08x}.json"


def clear(folder: Path, case: Case) -> None:
    """Remove an earlier run's evidence of this case."""
    with suppress(OSError):
        path(folder, case).unlink(missing_ok=True)
        path(folder, case).with_suffix(".npz").unlink(missing_ok=True)


def write(folder: Path, case: Case, seed: int, reason: str, answered: Found, keep: bool) -> Path:
    """Write evidence as JSON and return its path; `keep`: also write inputs and outputs, as `.npz`.

    In the `.npz`, the wrong output is the array `answer`, other outputs are `answer_NAME`."""
    import numpy as np

    target = path(folder, case)
    folder.mkdir(parents=True, exist_ok=True)
    document = {"case": case.name, "reason": reason, "seed": seed, "probe": answered.probe, **_numbers(answered)}
    if keep:
        operands = target.with_suffix(".npz")
        wrong = answered.evidence.operand
        answers = {"answer" if name == wrong else f"answer_{name}": array for name, array in answered.got.items()}
        arrays: dict[str, Any] = {**answered.x, **answers}
        np.savez(operands, **arrays)
        document["operands"] = operands.name
    target.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return target


def _numbers(answered: Found) -> dict[str, Any]:
    """Return count, first and worst index of the wrong values, and a histogram of error over bound."""
    import numpy as np

    error, bound = answered.evidence.error, answered.evidence.bound
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        nothing = np.where(np.isnan(error), np.nan, np.where(error > 0, np.inf, 0.0))
        share = np.where(bound > 0, error / bound, nothing)
        bad = ~(error <= bound)
    evidence = answered.evidence
    numbers: dict[str, Any] = {"operand": evidence.operand, "test": evidence.test, "values": int(bad.size)}
    numbers["wrong"] = int(bad.sum())
    if bad.any():
        worst = np.unravel_index(np.argmax(np.where(np.isnan(share), -1.0, share)), share.shape)
        numbers["first"] = [int(i) for i in np.argwhere(bad)[0]]
        numbers["worst"] = {
            "index": [int(i) for i in worst],
            "error": _finite(error[worst]),
            "allowed": _finite(bound[worst]),
        }
    edges = (0.0, *DECADES, np.inf)
    counts = [int(((share >= a) & (share < b)).sum()) for a, b in itertools.pairwise(edges)]
    counts[-1] += int(np.isposinf(share).sum())
    numbers["error_over_allowed"] = {
        "edges": [0.0, *DECADES],
        "counts": counts,
        "not_a_number": int(np.isnan(share).sum()),
    }
    return numbers


def _finite(value: Any) -> float | None:
    """Return the value as a float; None if it is NaN or infinite, which JSON lacks."""
    return float(value) if abs(float(value)) < float("inf") else None
