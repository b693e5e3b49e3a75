"""What heaps should bring, by page faults that go or come, and which values of a change are tried."""

from __future__ import annotations

import pytest

from kernels import heap
from kernels.libs import preload
from macro import changes
from macro.changes import heaps, settings
from macro.changes.base import Effect
from tests.macro.changes.test_brings import asked
from tests.macro.changes.test_changes import before, flags, seen, step


def test_a_heap_brings_the_time_of_the_page_faults_that_go() -> None:
    brings = changes.find("heap-keep").change.brings
    (part,) = brings(asked(step(heap="keep"), before(), seen(faults=900.0))).parts
    assert part.seconds == pytest.approx(-0.9 * 0.2) and part.low < part.seconds < part.high < 0
    (more,) = brings(asked(step(preload="jemalloc"), before(), seen(faults=18_000.0))).parts
    assert more.seconds == pytest.approx(0.2)
    (none,) = brings(asked(step(heap="keep"), before(faults=3.0), seen(faults=2.0))).parts
    assert none.seconds == 0 and none.low < 0 < none.high


@pytest.mark.parametrize(
    ("faults", "error", "there"),
    [(0.0, 0.0, True), (5000.0, 5000.0, True), (5000.0, 100.0, False), (9000.0, 3000.0, False)],
)
def test_a_heap_that_still_grew_in_one_of_few_steps_keeps_its_memory(faults: float, error: float, there: bool) -> None:
    assert heaps.fewer_faults(before(), seen(faults=faults, faults_error=error)).there is there


def test_page_faults_where_there_were_none_cost_what_one_costs_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heaps, "new_memory", lambda page: 2e-6)
    none = before(faults=0.0, system=0.0)
    (more,) = changes.find("heap-jemalloc").change.brings(asked(step(), none, seen(faults=5000.0))).parts
    assert more.seconds == pytest.approx(0.01) and more.low < more.seconds < more.high


def test_huge_pages_save_what_large_pages_cost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heaps, "new_memory", lambda page: 2e-6 if page == 4096 else 0.5e-6)
    (part,) = changes.find("huge-pages").change.brings(asked(step(), before(), seen(faults=0.0))).parts
    assert part.seconds == pytest.approx(-0.75 * 0.2) and part.low < part.seconds < part.high


@pytest.mark.parametrize(("faults", "certain"), [(10_000.0, False), (14_000.0, True), (1000.0, True)])
def test_beside_another_change_page_faults_count_where_they_certainly_differ(faults: float, certain: bool) -> None:
    found = heaps.beside(before(faults_error=900.0), seen(faults=faults, faults_error=300.0))
    assert bool(found) == certain
    assert not found or (found[0].seconds > 0) == (faults > 9000)


def test_page_faults_of_a_script_may_come_or_go_by_chance() -> None:
    (part,) = heaps.beside(before(), seen(faults=4500.0), by_chance=True)
    assert part.seconds == 0 and (part.low, part.high) == (pytest.approx(-0.2), pytest.approx(0.2))
    assert heaps.beside(before(faults=9.0), seen(faults=90.0), by_chance=True) == ()


def test_page_faults_of_several_threads_may_be_taken_at_once() -> None:
    """The operating system's time is a sum over threads, a step's is the wall's."""
    brings = changes.find("heap-keep").change.brings
    (one,) = brings(asked(step(heap="keep"), before(), seen(faults=0.0))).parts
    two = before(identity={"threads": {"intra-op": 2, "inter-op": 1}})
    (part,) = brings(asked(step(heap="keep"), two, seen(faults=0.0))).parts
    assert part.seconds == pytest.approx(0.75 * one.seconds)
    assert part.low < one.seconds < 0.5 * one.seconds < part.high


def test_threads_are_tried_that_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = changes.known("threads").tries
    monkeypatch.setattr(settings, "cores", lambda: 8)
    assert tries(step(threads=1)) == ["4", "8"] and tries(step(threads=0)) == ["1", "4", "8"]
    monkeypatch.setattr(settings, "cores", lambda: 1)
    assert tries(step(threads=1)) == []


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (("sse", "avx", "avx2", "avx512"), None),
        (("sse", "avx", "avx2"), "already this processor's widest set"),
        (("native",), "this processor lacks this set"),
    ],
)
def test_a_set_is_tried_that_is_narrower(
    here: tuple[str, ...], why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    applies = changes.known("isa").applies
    monkeypatch.setattr(settings, "instruction_sets", lambda: here)
    assert applies(step(), "avx2") == why and applies(step(), "Haswell") is None
    assert (applies(step(), "sse4.2") is None) == ("sse" in here)


def test_what_pytorch_says_of_its_instructions_shows_that_they_changed() -> None:
    was, now = (seen(**flags(capability=word)) for word in ("AVX512", "AVX2"))
    effect = changes.known("isa").took(before(identity=was.identity), now)
    assert effect == Effect(True, "capability AVX512, now AVX2")


@pytest.mark.parametrize("name", ["mkl_intel-1.so", "libjemalloc.so.2"])
def test_what_the_environment_preloads_is_not_tried_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", f"/somewhere/{name}")
    word, other = ("mkl-dispatch", "heap-keep") if name.startswith("mkl") else ("heap-jemalloc", "mkl-dispatch")
    assert changes.find(word).refused(step()) in ("already applied", "the heap is not the default")
    assert "already" not in (changes.find(other).refused(step()) or "")


def test_shims_that_leave_the_heap_as_it_is_are_all_that_is_preloaded_but_allocators() -> None:
    assert set(heap.SHIMS) == {word.replace("-", "_") for word in preload.WORDS if word not in preload.ALLOCATORS}
