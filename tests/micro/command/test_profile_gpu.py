"""The line that shows one launch to Nsight Compute."""

from __future__ import annotations

import itertools
import shlex
import sys

import pytest

from micro.command import profile


@pytest.mark.parametrize(
    "command",
    [
        "python -m micro.gemm --m 8 --device cuda:0 --variant cublas --profile",
        "/usr/bin/python3 -m micro.gemm --variant '/a b/mine.py:f' --device cuda:0 --profile",
    ],
)
def test_the_same_command_under_ncu(command: str) -> None:
    """By this Python, its words as they were typed, the launch alone, clocks as in a measurement."""
    words = shlex.split(profile.gpu_line(command))
    at = words.index(sys.executable)
    assert words[0] == "ncu" and words[at + 1 :] == shlex.split(command)[1:]
    options = dict(itertools.pairwise(words[1:at]))
    assert options["--profile-from-start"] == "off" and options["--clock-control"] == "none"
