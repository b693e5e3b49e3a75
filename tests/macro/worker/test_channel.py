"""Lines to the driver, from a program that closes all files that are open."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from macro.watching.script import RUNNER

CODE = """
import os, sys
sys.path.insert(0, {worker!r})
import loop
channel = loop.Channel(int(sys.argv[1]))
channel.send("begun")
os.closerange(3, 256)
{then}
channel.send("lost")
"""


@pytest.mark.parametrize("then", ["", "own = [open(sys.argv[2], 'a') for _ in range(99)]"], ids=["closed", "another's"])
def test_a_file_of_the_programs_own_is_never_written_to(then: str, tmp_path: Path) -> None:
    read, write = os.pipe()
    code = CODE.format(worker=str(RUNNER.parent), then=then)
    words = [sys.executable, "-c", code, str(write), str(tmp_path / "own.txt")]
    ran = subprocess.run(words, pass_fds=[write], capture_output=True, text=True, check=False)
    os.close(write)
    with os.fdopen(read) as stream:
        assert json.loads(stream.read())["kind"] == "begun"
    assert (
        ran.returncode == 1 and ran.stderr == "it closed files that it has not opened, so that it cannot be watched\n"
    )
    assert not then or (tmp_path / "own.txt").read_text() == ""
