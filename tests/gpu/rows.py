"""Which problems a row of device "cuda" is tried with, and how."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find, variants
from kernels.devices.cuda import Cuda
from kernels.dtypes import BYTES
from kernels.errors import Unavailable
from kernels.launch import Launch
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check, guards, turns
from tests.gpu.conftest import REAL, missing


def tries(op: str, *problems: Problem, also: Sequence[str] = ()) -> list[Any]:
    """Each row of a table with those of the problems that it accepts, where there are any."""
    table = (*variants(op), *(find(op, name) for name in also))
    found = {}
    for row in dict.fromkeys(row.name for row in table if row.device == "cuda"):
        accepted = [x for x in problems if find(op, row).accepts(x) is None]
        if accepted:
            found[row] = accepted
    return [pytest.param(find(op, row), accepted, id=row) for row, accepted in found.items()]


def rows(op: str, problems: Sequence[Problem]) -> list[Any]:
    """Each row of device "cuda" with those of the problems that it accepts: some, or it is none of this table."""
    tried_with = []
    for row in variants(op):
        accepted = [x for x in problems if row.accepts(x) is None]
        if row.device == "cuda":
            assert accepted, f"{row.name} accepts nothing"
            tried_with.append(pytest.param(row, accepted, id=row.name))
    return tried_with


COMPLETE = ("update", "activation", "softmax", "gather", "transfer", "exchange", "chase")  # no library lacks any


def tried(device: Cuda, row: Variant[Any], problems: Sequence[Problem]) -> None:
    """Check each problem, and again as a replayed graph; skip where a library has nothing for any of them."""
    if reason := missing(row):
        pytest.skip(reason)
    refused = []
    for problem in problems:
        try:
            once(device, device.adopt(row), problem, data_of(problem))
        except Unavailable as reason:
            known = problem.op == "optimizer" or (row.name.startswith("cublaslt") and uneven(problem))
            assert known or (REAL and problem.op not in COMPLETE), str(reason)
            refused.append(str(reason))
    if len(refused) == len(problems) or (refused and problems[0].op == "optimizer"):
        pytest.skip(", ".join(dict.fromkeys(refused)))


def data_of(problem: Problem) -> str:
    """Return the data of a problem's operands: the state of an optimizer is of positive numbers."""
    return "uniform" if problem.op == "optimizer" else "normal"


def uneven(problem: Problem) -> bool:
    """Whether rows of 16-bit numbers begin at no multiple of 4 bytes."""
    return any(BYTES[x.dtype] == 2 and x.ld % 2 for x in problem.operands())


def once(
    device: Cuda, row: Variant[Any], problem: Problem, data: str = "normal", workspace: int | None = None
) -> Launch:
    """Prepared, bound, launched, checked; and again as a replayed graph."""
    seed = zlib.crc32(problem.name.encode())
    try:
        bind = row.prepare(problem, device, Setting(device=device.name, data=data, workspace=workspace))
        check.check(device, problem, row, bind, seed)
        bench = guards.Bench(device, problem)
        launch = bind(bench.views)
        if launch.capturable:
            replay = device.captured(launch, 1)
            made = list(map(turns.Turn, problem.probes))
            check.judge({"guarded": check.Place(bench, replay)}, row, np.random.default_rng(seed + 1), made)
    except Exception as error:
        if not REAL:
            device.cp.queue.clear()  # the next one begins anew
        error.add_note(f"{row.name} at {problem.name}")
        raise
    return launch


def enqueued(device: Cuda, row: Variant[Any], problem: Problem, data: str = "normal") -> tuple[Launch, list[str]]:
    """A launch of the fake device's, called once, and what that call enqueued."""
    bench = guards.Bench(device, problem)  # its memory is in use until the last synchronization
    launch = row.prepare(problem, device, Setting(device=device.name, data=data))(bench.views)
    device.sync()
    device.cp.journal.clear()
    launch.call()
    journal = list(device.cp.journal)
    device.sync()
    return launch, journal
