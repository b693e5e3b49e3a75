"""An interrupt in a later process keeps the processes before it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from macro.running import script, script_request
from macro.watching.recording import Recording, Watched


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_interrupt_keeps_earlier_processes(
    stop: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    asked = script_request.request([str(tmp_path / "train.py"), "--runs", "3", "-q"])
    replies: list[Any] = [([Recording({}, [Watched()])], 0), stop]

    def watched(*_: object) -> tuple[Sequence[Recording], int]:
        reply = replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply  # type: ignore[no-any-return]

    monkeypatch.setattr(script, "_watched", watched)
    recordings, _, ended = script._recordings(asked, asked.outputs, [], lambda text: None)
    assert (len(recordings), ended) == (1, code)
    replies.append(stop)
    with pytest.raises(type(stop)):
        script._recordings(asked, asked.outputs, [], lambda text: None)
