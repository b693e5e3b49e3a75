"""Each command says what it takes."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from macro import __main__ as macro
from macro import command


@pytest.mark.parametrize("command", macro.commands())
def test_help_is_told(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        raise SystemExit(macro.main([command, "--help"]))
    assert not end.value.code and "usage: python -m macro" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["advise", "explain", "whatif"])
def test_help_for_a_program_is_told(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        raise SystemExit(macro.main([command, "train.py", "--help"]))
    told = " ".join(capsys.readouterr().out.split())
    assert not end.value.code and ("of all: 15 % for kernels alone" in told) == (command == "advise")


def test_a_line_of_progress_is_written_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads print too, and two writes let another's line come between."""
    written: list[str] = []
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=written.append, flush=lambda: None))
    command.say(False, "starting")
    command.say(True, "nothing")
    assert written == ["starting\n"]
