"""The file of what faults cost: it comes back as it went, and a damaged one is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernels import faults
from kernels.faults import Cost, Faults

FOUND = Faults(
    "2026-01-02T03:04:05+00:00",
    "0123456789abcdef",
    {4096: Cost(1.5e-6, 1.4e-6, 1.6e-6), 2 << 20: Cost(3e-5)},
    {4096: Cost(2e-7, 1e-7, 3e-7)},
)


def test_it_comes_back_as_it_went(own_state: Path) -> None:
    assert faults.load() is None
    faults.save(FOUND)
    assert faults.load() == FOUND


def test_faults_have_a_price() -> None:
    assert FOUND.seconds(1000) == pytest.approx(1.5e-3)
    assert FOUND.seconds(10, 2 << 20) == pytest.approx(3e-4)
    assert Faults("", "", {}).seconds(10) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '"x"',
        '{"measured": "", "environment": "", "fault": {}}',
        '{"measured": "", "environment": "", "fault": [], "unmap": {}}',
        '{"measured": "", "environment": "", "fault": {"4096": 1.5e-6}, "unmap": {}}',
        '{"measured": "", "environment": "", "unmap": {},'
        ' "fault": {"small": {"seconds": 1.0, "low": null, "high": null}}}',
        '{"measured": "", "environment": "", "unmap": {},'
        ' "fault": {"4096": {"seconds": null, "low": null, "high": null}}}',
        '{"measured": "", "environment": "", "fault": {"4096": {"seconds": 1.0}}, "unmap": {}}',
    ],
)
def test_a_damaged_file_is_none(own_state: Path, text: str) -> None:
    faults.save(FOUND)
    (own_state / faults.FILE).write_text(text)
    assert faults.load() is None


def test_bytes_that_are_no_text_are_none(own_state: Path) -> None:
    faults.save(FOUND)
    (own_state / faults.FILE).write_bytes(b"\xff\xfe{}")
    assert faults.load() is None


def test_what_a_later_version_adds_is_passed_over(own_state: Path) -> None:
    faults.save(FOUND)
    path = own_state / faults.FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | {"more": 1}))
    assert faults.load() == FOUND
