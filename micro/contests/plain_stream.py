"""STREAM's copy and triad as plain loops of C, left to the compiler's optimization."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels import build
from kernels.launch import Bind, Launch
from kernels.native import launch
from kernels.ops.stream.problem import Stream
from kernels.ops.stream.variants import Argument
from kernels.variant import Variant

SOURCE = Path(__file__).with_name("plain_stream.c")


def prepare(problem: Stream, device: object, setting: object) -> Bind:
    function = build.address(SOURCE, f"plain_{problem.kind}")
    names = [operand.name for operand in problem.operands()]

    def bind(buffers: Sequence[Any]) -> Launch:
        return launch(function, Argument(count=problem.count), names, buffers)

    return bind


ROW: Variant[Stream] = Variant("plain", "cpu", "tests", prepare)
