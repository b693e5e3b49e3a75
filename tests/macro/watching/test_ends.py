"""The whole time of a command that watches scripts."""

from __future__ import annotations

from macro.watching import ends


def test_the_whole_time_is_said_with_its_parts() -> None:
    assert ends.explaining(1, 1, 40.0) == (
        "about 71 s in all: 40 s of watching, 15 s until memory is settled, 16 s for operations by themselves and "
        "ceilings"
    )
    assert ends.explaining(2, 3, 40.0).startswith("about 256 s in all: 120 s of watching, 90 s until")
    assert ends.changing(3, 120.0).startswith("about 171 s in all: 120 s of measuring, 51 s until")


def test_long_steps_take_longer_than_the_budget() -> None:
    assert ends.settled(12.0, 1, 40.0, 0.1) == "memory is settled after 12 s: watching takes about 46 s more"
    assert ends.settled(12.0, 1, 40.0, 10.0).endswith("about 186 s more")
