"""The driver of `micro.ab` over scripted arms: who is asked what and when, and what is made of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from micro.arms import pairs
from micro.planning.contest import parse
from reports.record import Note, Run
from tests.simulated.arms import CALLS, NAMES, Script, command, kept, slower


def note(run: Run, topic: str) -> dict[str, Any]:
    (found,) = [x for x in run.notes if isinstance(x, Note) and x.topic == topic]
    return found.data


# Who is asked what


def test_both_arms_are_asked_the_same() -> None:
    """Placements come from the seed; launches from the least of both arms' calls: alike in everything."""
    script = Script()
    assert command(script).code == 0
    for do in ("prepare", "open", "settle", "close"):
        sides = [[(x.pair, x.given) for x in script.asked(do, arm=arm)] for arm in "ab"]
        assert sides[0] == sides[1] and len(sides[0]) == 6 * len(NAMES), do
    least = [min(both) for both in zip(*CALLS.values(), strict=True)]
    assert all(x.given == {"calls": least, "visit": pairs.ACROSS} for x in script.asked("settle"))


def test_every_pair_has_its_own_placements_order_and_canary() -> None:
    """The first is checked."""
    script = Script()
    assert json.loads(command(script, "--json", "-").out)["comparisons"]
    opened = script.asked("open", arm="a")
    assert len({x.given["seed"] for x in opened}) == len(opened) == 6 * len(NAMES)
    assert all((x.given["seed"] is not None) == (x.pair == 0) for x in script.asked("prepare"))
    orders = [tuple(x.given["case"] for x in script.asked("open", arm="a", pair=p)) for p in range(6)]
    assert all(sorted(order) == sorted(NAMES) for order in orders) and len(set(orders)) > 2
    for arm in "ab":
        assert [x.pair for x in script.asked("look", arm=arm) if x.given["canary"]] == list(range(6))


@pytest.mark.parametrize(("seconds", "rounds"), [(0.0, pairs.TURN), (1.0, 1)])
def test_turns_are_taken_in_random_order(seconds: float, rounds: int) -> None:
    """Two turns each at least, in each both arms have the same rounds; long rounds change hands at once."""
    script = Script(round=seconds)
    command(script)
    looks = script.asked("look")
    turns = [looks[i : i + 2] for i in range(0, len(looks), 2)]
    assert len(turns) >= 2 * 6 * len(NAMES)
    for one, other in turns:
        assert {one.arm, other.arm} == {"a", "b"} and one.given == other.given
        assert one.given["rounds"] == rounds
    first = [turn[0].arm for turn in turns]
    assert 0.25 < first.count("a") / len(first) < 0.75
    assert {x.given["first"] for x in looks} >= {0, rounds}


# What is made of it


def test_the_record() -> None:
    ran, run = kept(Script(slower(1.2)), processes=7)
    assert (ran.code, ran.err) == (0, "")
    assert [contest.contest for contest in run.contests] == [f"ab/{name}" for name in NAMES]
    for name, contest in zip(NAMES, run.contests, strict=True):
        (found,) = contest.comparisons
        assert (found.verdict, found.differs, found.scope) == ("slower", "arm", "across 7 processes an arm")
        assert (found.baseline, found.contender) == (f"{name}/arm:a", f"{name}/arm:b")
        assert found.low is not None and found.high is not None and found.low < 1.2 < found.high
        a, b = (one.seconds.median for one in contest.results if one.seconds)
        assert b / a == pytest.approx(1.2, rel=0.01)
        for arm, one in zip("ab", contest.results, strict=True):
            assert parse(one.name).name == name
            assert (one.status, one.clock, one.launches) == ("ok", "cpu", 7)
            assert one.processes == tuple(sorted([*range(7)] * 2)) and one.rounds == (0, 1) * 7
            assert len(one.samples) == 14 and one.kernel == f"kernel of {arm}" and one.error == 1e-7
            assert one.canary == {"fma/isa:avx2": [2e-5] * 7}
    told = note(run, "ab")
    assert (told["processes"], told["margin"], told["gate"]) == (7, 0.01, None)
    assert told["a"]["environment"]["digest"] == "a" and told["b"]["environment"]["digest"] == "b"


@pytest.mark.parametrize(
    ("settled", "clock"), [({"queues": False}, "wall"), ({"queues": True}, "cpu"), ({}, "cpu"), (None, "wall")]
)
def test_where_visits_are_short_or_no_queueing_is_told_the_wall_is_the_clock(
    settled: dict[str, bool] | None, clock: str
) -> None:
    """A checkout from before it was asked does not say."""
    _, run = kept(Script(slower(1.2), visit=1e-5) if settled is None else Script(slower(1.2), settled=settled))
    assert {one.clock for one in run.results} == {clock} and {c.verdict for c in run.comparisons} == {"slower"}
    assert settled is not None or all(one.samples[0] > 8e-6 for one in run.results)


def test_what_differs_between_the_arms_is_said() -> None:
    facts: dict[str, dict[str, Any]] = {"a": {"packages": {"numpy": "1"}}, "b": {"packages": {"numpy": "2"}}}
    ran, run = kept(Script(facts=facts))
    assert "Between the arms differ: packages.numpy: 1 → 2." in ran.out
    assert note(run, "ab")["differs"] == ["packages.numpy: 1 → 2"]
    assert "differ: nothing that is recorded." in kept(Script())[0].out


@pytest.mark.parametrize(
    ("ratio", "spread", "gate", "code"),
    [
        (1.10, 0.002, "5%", 1),  # slower, and by more
        (1.048, 0.006, "5%", 1),  # slower for certain, and perhaps by the gate
        (1.03, 0.002, "5%", 0),  # slower for certain, surely by less
        (1.03, 0.002, "2%", 1),
        (1.0, 0.002, "5%", 0),
        (1.05, 0.2, "5%", 0),  # not known
        (1.10, 0.002, None, 0),  # nobody asked
    ],
)
def test_the_gate(ratio: float, spread: float, gate: str | None, code: int) -> None:
    ran, run = kept(Script(slower(ratio, spread)), *(["--gate", gate] if gate else []), processes=13)
    assert ran.code == code
    assert ("not passed: " in ran.out) == (code == 1)
    assert (": passed." in ran.out) == (gate is not None and code == 0)
    assert code == 0 or all(name in " ".join(ran.out.split()).partition("not passed: ")[2] for name in NAMES)
    if code or ratio == 1.03:
        assert {c.verdict for c in run.comparisons} == {"slower"}
