"""A slow host is told from what its canaries took before."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from micro.measuring import canary_history
from micro.worker import speed


def history(name: str, seen: Sequence[float]) -> canary_history.History:
    """An environment in which the canary `name` took so long."""
    for took in seen:  # a value a command
        known = canary_history.History("test")
        if not known.slow({name: took}):
            known.remember({name: took})
        known.save()
    return canary_history.History("test")


FMA, READ = "fma/isa:avx2", f"stream/kind:read/size:{speed.SMALL}"
LARGE = "stream/kind:read/size:134217728"


@pytest.mark.parametrize(
    ("name", "excess", "slow"),
    [
        (FMA, 0.02, False),
        (FMA, 0.05, True),
        (READ, 0.12, False),
        (READ, 0.2, True),
        (LARGE, 0.2, False),
        (LARGE, 0.3, True),
    ],
)
def test_a_slow_host_is_told_from_its_own_past(own_state: Path, name: str, excess: float, slow: bool) -> None:
    known = history(name, [1e-5, 1.001e-5] * 8)
    said = known.slow({name: 1e-5 * (1 + excess)})
    assert bool(said) == slow
    words = {FMA: "a chain of multiply-adds", READ: "a read of 4 MiB", LARGE: "a read of 128 MiB"}
    assert said is None or f"slow host: {words[name]} took" in said


def test_a_host_that_always_varies_is_not_called_slow(own_state: Path) -> None:
    assert history(FMA, [1e-5, 1.1e-5] * 8).slow({FMA: 1.2e-5}) is None


def test_a_short_past_says_nothing(own_state: Path) -> None:
    assert history(FMA, [1e-5] * 7).slow({FMA: 1e-4}) is None


def test_the_past_is_kept_and_bounded(own_state: Path) -> None:
    history(FMA, [1e-5] * 100)
    assert canary_history.History("test").slow({FMA: 1e-4}) is not None
    assert canary_history.History("another").slow({FMA: 1e-4}) is None
    (file,) = (own_state / "canary").iterdir()
    assert file.read_text().count("1e-05") == canary_history.HISTORY


@pytest.mark.parametrize(
    "text", ["", "junk", '{"fma', *(pytest.param(x) for x in ("[1, 2]", "null", '{"fma/isa:avx2": 5}'))]
)
def test_a_damaged_past_is_forgotten(own_state: Path, text: str) -> None:
    (own_state / "canary").mkdir(parents=True)
    (own_state / "canary" / "test.json").write_text(text)
    assert canary_history.History("test").slow({FMA: 1e-4}) is None
