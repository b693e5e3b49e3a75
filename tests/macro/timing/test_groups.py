"""Which processes are in memory at once, and in which rounds they meet."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import Unavailable
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes.job import Setting
from macro.timing import groups, turns
from macro.timing.entry import FEWEST, Entry, Plan, Taken

NETWORK = chain("small", "a test", 8, (12, 4), rate=0.1)
PLAN = Plan(NETWORK, 8, "step", 0.0, 2)
GIGABYTES = 10**9


class Machine:
    """Ten gigabytes of memory; each process takes what `sizes` says, once it was started; no time passes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sizes: dict[str, float], fails: str = "") -> None:
        self.sizes, self.fails, self.started = sizes, fails, list[str]()
        monkeypatch.setattr(groups, "memory", lambda: 10 * GIGABYTES)
        monkeypatch.setattr(groups, "_begin", self.start)
        monkeypatch.setattr(groups, "_warm", lambda plan, entry: True)
        monkeypatch.setattr(turns, "Peak", lambda threads: None)
        monkeypatch.setattr(turns, "_round", lambda plan, order, alive, peak: [(x, {"wall": 1.0}) for x in alive])
        monkeypatch.setattr(turns.job_files, "write_arrays", lambda *of: {})

    def start(self, plan: Plan, entry: Entry, *rest: Any) -> bool:
        name = entry.framework.name
        self.started.append(name)
        if name == self.fails:
            entry.fail(Unavailable("it is not here"))
            return False
        entry.peak = int(self.sizes[name] * GIGABYTES)
        return True


def entries(*names: str) -> list[Entry]:
    return [Entry(find(name), Setting()) for name in names]


def rounds(entry: Entry) -> set[tuple[int, int]]:
    return {(generation, number) for generation, number, _ in entry.blocks}


def test_what_fits_is_one_group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, {"numpy": 1, "pytorch": 1, "jax": 1})
    own, taken = entries("numpy", "pytorch", "jax"), list[Taken]()
    turns.take(PLAN, own, tmp_path, lambda text: None, taken.append)
    assert sorted(machine.started) == sorted(["numpy", "pytorch", "jax"] * 2)
    assert all(rounds(x) == {(g, n) for g in (0, 1) for n in range(FEWEST)} for x in own)
    assert [x.number for x in taken if x.ended] == [FEWEST - 1] * 2


def test_the_reference_is_in_every_group_and_the_others_in_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Machine(monkeypatch, {"numpy": 5, "pytorch": 2, "jax": 4, "mxnet": 5})
    own, taken = entries("numpy", "pytorch", "jax", "mxnet"), list[Taken]()
    said: list[str] = []
    turns.take(PLAN, own, tmp_path, said.append, taken.append)
    numpy, shared, jax, mxnet = own
    second = [{number for generation, number in rounds(x) if generation == 1} for x in own]
    assert second[1] == set(range(3 * FEWEST))  # 2 + 5, 2 + 4 and 2 + 5 of 8 gigabytes
    assert all(len(x) == FEWEST for x in (second[0], second[2], second[3]))
    assert not second[0] & second[2] and not second[2] & second[3]
    assert rounds(numpy) | rounds(jax) | rounds(mxnet) == rounds(shared)
    assert [x.ended for x in taken if x.generation == 1] == [False] * (3 * FEWEST - 1) + [True]
    assert [x.number for x in taken if x.generation == 1] == list(range(3 * FEWEST))
    assert any("deferred to another group: memory is full" in text for text in said)


def test_groups_share_the_budget_by_whom_they_measure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Machine(monkeypatch, {"numpy": 5, "pytorch": 2, "jax": 4, "mxnet": 5})
    shares, plan = list[float](), replace(PLAN, seconds=8.0)
    rounds_of = turns._rounds

    def noted(plan: Plan, past: Taken, share: float, *rest: Any) -> Any:
        shares.append(share)
        return rounds_of(plan, past, 0.0, *rest)

    monkeypatch.setattr(turns, "_rounds", noted)
    turns.take(plan, entries("numpy", "pytorch", "jax", "mxnet"), tmp_path, lambda text: None)
    assert sum(shares) == pytest.approx(8.0) and len(shares) > 2


def test_on_other_threads_a_framework_is_thought_as_large_and_small_ones_fill_a_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, {"numpy": 5, "pytorch": 1, "jax": 1})
    monkeypatch.setattr(turns.random, "Random", lambda seed: Unmixed())
    own = [Entry(find(name), Setting(threads=count)) for name in ("pytorch", "jax", "numpy") for count in (1, 2)]
    turns.take(replace(PLAN, generations=1), own, tmp_path, lambda text: None)
    assert machine.started == ["pytorch", "pytorch", "jax", "jax", "numpy", "pytorch", "numpy"]
    own = [Entry(find(name), Setting(threads=count)) for name in ("pytorch", "numpy", "jax") for count in (1, 2)]
    machine.started.clear()
    turns.take(replace(PLAN, generations=1), own, tmp_path, lambda text: None)
    # The second of NumPy is as large as the first; those that come after it and never ran may be, too.
    numpy, jax = ["pytorch", "numpy"], ["pytorch", "jax", "jax"]
    assert machine.started == ["pytorch", *numpy, *numpy, *jax]


def test_a_generation_whose_last_group_does_not_start_has_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, {"numpy": 5, "pytorch": 2, "jax": 9})
    own, taken = entries("numpy", "pytorch", "jax"), list[Taken]()
    own[2].peak = 9 * GIGABYTES
    start = machine.start

    def late(plan: Plan, entry: Entry, *rest: Any) -> bool:
        if own[0].blocks:  # of the second group nobody starts
            entry.fail(Unavailable("no memory"))
            return False
        return start(plan, entry, *rest)

    monkeypatch.setattr(groups, "_begin", late)
    monkeypatch.setattr(turns.random, "Random", lambda seed: Unmixed())
    turns.take(replace(PLAN, generations=1), own, tmp_path, lambda text: None, taken.append)
    assert taken[-1].ended and taken[-1].number == FEWEST - 1


class Unmixed(random.Random):
    """In the order given."""

    def sample(self, population: Any, k: int, **rest: Any) -> list[Any]:
        return list(population)[:k]


def test_the_first_process_says_how_many_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By what it has in memory when it is warm, before any other one starts."""
    Machine(monkeypatch, {})
    own, begun = entries("pytorch", "numpy", "jax"), list[str]()

    def warm(plan: Plan, entry: Entry) -> bool:
        entry.peak = 3 * GIGABYTES
        return True

    monkeypatch.setattr(groups, "_begin", lambda plan, entry, *rest: begun.append(entry.framework.name) is None)
    monkeypatch.setattr(groups, "_warm", warm)
    with ExitStack() as stack:
        alive, left = groups.fill(PLAN, own[0], own, own, tmp_path, stack, lambda text: None)
    assert begun == ["pytorch", "numpy"] == [one.framework.name for one in alive] and left == own[2:]


def test_what_is_larger_than_all_memory_is_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Machine(monkeypatch, {"pytorch": 20, "jax": 30})
    own = entries("pytorch", "jax")
    turns.take(PLAN, own, tmp_path, lambda text: None)
    assert all(len(x.blocks) == 2 * FEWEST for x in own)


def test_a_reference_that_does_not_start_is_started_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, {"numpy": 5, "jax": 5}, fails="pytorch")
    own = entries("numpy", "pytorch", "jax")
    turns.take(PLAN, own, tmp_path, lambda text: None)
    assert machine.started.count("pytorch") == 1 and own[1].status == "skipped"
    assert len(own[0].blocks) == len(own[2].blocks) == 2 * FEWEST


def test_without_pytorch_the_first_is_the_reference() -> None:
    assert groups.reference(entries("numpy", "jax")).framework.name == "numpy"
    both = entries("numpy", "pytorch")
    assert groups.reference(both).framework.name == "pytorch"
    both[1].fail(Unavailable("it is not here"))
    assert groups.reference(both).framework.name == "numpy"


def test_one_beside_the_reference_always_fits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Machine(monkeypatch, {"pytorch": 9, "jax": 9, "numpy": 9})
    own = entries("pytorch", "jax", "numpy")
    for one in own:
        one.peak = 9 * GIGABYTES
    with ExitStack() as stack:
        alive, left = groups.fill(PLAN, own[0], own, own, tmp_path, stack, lambda text: None)
    assert alive == own[:2] and left == own[2:]


def test_an_entry_whose_steps_are_wanted_no_more_takes_no_turn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, {"numpy": 1, "jax": 1})
    one, other = entries("numpy", "jax")

    def keep(taken: Taken) -> None:
        if taken.number == 2:
            other.ended = "it does not help"

    turns.take(replace(PLAN, fewest=10), [one, other], tmp_path, lambda text: None, keep)
    assert len(one.blocks) == 20 and len(other.blocks) == 3
    assert sorted(machine.started) == ["jax", "numpy", "numpy"]  # of a second generation it is no part
