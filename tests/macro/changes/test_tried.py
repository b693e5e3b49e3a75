"""Which values of a change are tried, and what of the environment is none any more."""

from __future__ import annotations

import pytest

from kernels import heap
from kernels.libs import preload
from macro import changes
from macro.changes.base import Effect
from tests.macro.changes.test_changes import before, flags, seen, step


def test_threads_are_tried_that_it_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    from macro.changes import threads

    monkeypatch.setattr(threads, "cores", lambda: 8)
    assert threads.tries(step(threads=1)) == ["4", "8"] and threads.tries(step(threads=0)) == ["1", "4", "8"]
    monkeypatch.setattr(threads, "cores", lambda: 1)
    assert threads.tries(step(threads=1)) == []


@pytest.mark.parametrize(
    ("here", "why"),
    [
        (("sse", "avx", "avx2", "avx512"), None),
        (("sse", "avx", "avx2"), "this processor has no wider vectors"),
        (("native",), "this processor has none of it"),
    ],
)
def test_a_set_is_tried_that_is_narrower(
    here: tuple[str, ...], why: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from macro.changes import isa

    monkeypatch.setattr(isa, "instruction_sets", lambda: here)
    assert isa.applies(step(), "avx2") == why and isa.applies(step(), "Haswell") is None
    assert (isa.applies(step(), "sse4.2") is None) == ("sse" in here)


def test_what_pytorch_says_of_its_instructions_shows_that_they_changed() -> None:
    was, now = (seen(**flags(capability=word)) for word in ("AVX512", "AVX2"))
    effect = changes.known("isa").took(before(identity=was.identity), now)
    assert effect == Effect(True, "capability AVX512, now AVX2")


@pytest.mark.parametrize("name", ["mkl_intel-1.so", "libjemalloc.so.2"])
def test_what_the_environment_preloads_is_not_tried_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", f"/somewhere/{name}")
    word, other = ("mkl-dispatch", "heap-keep") if name.startswith("mkl") else ("heap-jemalloc", "mkl-dispatch")
    assert changes.find(word).refused(step()) in ("it is made already", "its heap is not the default any more")
    assert "already" not in (changes.find(other).refused(step()) or "")


def test_shims_that_leave_the_heap_as_it_is_are_all_that_is_preloaded_but_allocators() -> None:
    assert set(heap.SHIMS) == {word.replace("-", "_") for word in preload.WORDS if word not in preload.ALLOCATORS}
