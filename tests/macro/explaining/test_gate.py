"""The gate of two scripts on steps made by hand, and the names of two scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from macro.explaining import gate, pair
from macro.watching.load import Load
from macro.watching.plain import Pair
from macro.watching.recording import Recording
from reports.gate import Gate

IDLE, BUSY = Load(1.0, 0.0, 0.0), Load(1.0, 1.0, 1.0)
NAMES = ("old.py", "new.py")


def steps(
    ratio: float, between: float = 0.0, seed: int = 0, pairs: int = 6, rounds: int = 12, load: Load = IDLE
) -> list[Pair]:
    """Return pairs whose ratio differs by `between` from pair to pair, and by 1 % between rounds."""
    rng = np.random.default_rng(seed)
    taken: list[Pair] = []
    for _ in range(pairs):
        a = 0.005 * np.exp(0.01 * rng.standard_normal(rounds))
        b = 0.005 * ratio * np.exp(between * rng.standard_normal() + 0.01 * rng.standard_normal(rounds))
        taken.append(Pair((a.tolist(), b.tolist()), [load]))
    return taken


def judged(pairs: list[Pair], stopped: str = "") -> Gate:
    return gate.judged(pairs, NAMES, 0.05, stopped)


def test_equal_steps_pass_and_a_tenth_more_fails() -> None:
    passed, failed = judged(steps(1.0)), judged(steps(1.1))
    assert (passed.outcome, failed.outcome) == ("passed", "failed")
    assert "new.py takes 1.0" in passed.sentence and "times old.py's step (6 processes of each)." in passed.sentence
    assert failed.ratio == pytest.approx(1.1, rel=0.01) and failed.low is not None and failed.low > 1.08


def test_processes_that_differ_widen_the_interval() -> None:
    """Each pair's rounds agree within 1 %; pairs of equal scripts lie 6 % apart."""
    outcomes = [judged(steps(1.0, 0.06, seed)) for seed in range(50)]
    assert sum(x.outcome == "failed" for x in outcomes) <= 1
    assert sum(bool(x.low and x.high and x.low <= 1 <= x.high) for x in outcomes) >= 45
    caught = [judged(steps(1.1, 0.015, seed)).outcome == "failed" for seed in range(20)]
    assert sum(caught) >= 18


def test_no_verdict_comes_of_a_busy_machine_or_of_few_processes() -> None:
    busy = judged(steps(1.1, load=BUSY))
    assert busy.outcome == "no verdict" and "other processes took 50% of the processor time" in busy.sentence
    assert judged(steps(1.0, load=BUSY)).outcome == "passed"  # certainly by less
    for pairs, stopped, reason in (
        (steps(1.1, pairs=5), "interrupted", "interrupted: 5 of 6 processes"),
        (steps(1.1, rounds=5), "", "too few rounds: 0 of 6 processes"),
        ([Pair(((), ()), ended="new.py: the script ended by itself")], "", "new.py: the script ended by itself: 0 of"),
    ):
        few = judged(pairs, stopped)
        assert few.outcome == "no verdict" and reason in few.sentence and few.code == 2


def recording(script: str, **facts: Any) -> Recording:
    return Recording({"script": script, "heap": "keep", "threads": 1, **facts})


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ("/x/old.py", "/x/new.py", ("old.py", "new.py")),
        ("/x/full/train.py", "/x/parts/train.py", ("full/train.py", "parts/train.py")),
        ("/x/full/net/train.py", "/x/parts/net/train.py", ("full/net/train.py", "parts/net/train.py")),
        ("/train.py", "/x/train.py", ("/train.py", "x/train.py")),
        ("/x/train.py", "/x/train.py", ("train.py A", "train.py B")),
    ],
)
def test_sides_of_one_file_name_have_their_folders(a: str, b: str, names: tuple[str, str]) -> None:
    assert pair.side_names(recording(a), recording(b)) == names


def test_sides_of_one_script_have_what_differs() -> None:
    both = recording("/x/a.py"), recording("/x/a.py", heap="default")
    assert pair.side_names(*both) == ("a.py heap keep", "a.py heap default")
