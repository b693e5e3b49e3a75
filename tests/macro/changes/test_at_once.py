"""Of several changes at once, what becomes of the parts that more than one of them changes."""

from __future__ import annotations

import pytest

from macro import changes
from macro.changes import _at_once, _heaps, _parts
from macro.changes.base import Part
from tests.macro.changes.test_brings import asked
from tests.macro.changes.test_changes import before, seen, step


def test_of_what_two_changes_change_each_leaves_its_ratio_of_what_the_other_leaves() -> None:
    two, better, faults = Part("gemm", -0.5, -0.51, -0.49, 1.0), Part("gemm", -0.4, -0.44, -0.36, 1.0), _parts.around
    both, rest = _at_once.at_once([two, better, faults("page faults", -0.1, 0.02, 0.1)])
    assert both.seconds == pytest.approx(-0.7) and both.of == 1.0
    assert both.high - both.seconds == pytest.approx(((0.01 * 0.6) ** 2 + (0.04 * 0.5) ** 2) ** 0.5)
    assert rest == faults("page faults", -0.1, 0.02, 0.1)
    apart = [Part("gemm", -0.5, -0.6, -0.4), two]  # of one nothing is known but its sum
    assert _at_once.at_once(apart) == apart
    others = [Part("the smaller ones", -2.5, -3.0, -2.0, 5.0), Part("the smaller ones", -50.0, -60.0, -40.0, 100.0)]
    assert _at_once.at_once(others) == others  # of other kernels


def test_page_faults_go_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_heaps, "new_memory", lambda page: 2e-6 if page == 4096 else 0.5e-6)
    gone = seen(faults=0.0)
    parts = [
        changes.find(word).change.brings(asked(step(), before(), gone)).parts for word in ("heap-keep", "huge-pages")
    ]
    (both,) = _at_once.at_once([*parts[0], *parts[1]])
    assert both.seconds == pytest.approx(-0.2)  # all of the operating system's time, and no more
    assert both.high - both.seconds == pytest.approx(parts[0][0].high - parts[0][0].seconds)  # what one costs


def test_page_faults_that_come_add_to_each_other() -> None:
    few, more = (_parts.around(_parts.PAGE_FAULTS, change, 0.3 * change, 0.01) for change in (0.3, 0.4))
    (both,) = _at_once.at_once([few, more])
    assert both.seconds == pytest.approx(0.7) and both.high - both.seconds == pytest.approx(0.21)
    (uncertain,) = _at_once.at_once([few, _parts.around(_parts.PAGE_FAULTS, 1e-4, 3e-3, 0.01)])
    assert uncertain.high - uncertain.seconds < 0.1  # and not thirty times what both bring
    (none,) = _at_once.at_once([few, _parts.around(_parts.PAGE_FAULTS, -0.01, 0.003, 0.01)])
    assert none.seconds == pytest.approx(-0.01)  # where freed memory is kept none come
