"""Whether a step has operands in cache, against reuse distances that are counted by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernels.devices.base import Limits
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.ops.pooling.problem import Pooling
from kernels.ops.update.problem import Update
from kernels.problem import Problem
from macro import networks
from macro.changes import _reuse
from macro.changes.base import PredictionInput
from macro.explaining.rows import rows
from macro.networks.base import Network
from macro.watching.script import Script
from tests.macro.changes.test_changes import NETWORK, before, seen, step

INPUT, W1, Y1, W2, Y2 = 4 * 8 * 12, 4 * 130, 4 * 8 * 10, 4 * 44, 4 * 8 * 4  # bytes of the small network's arrays


def asked(network: Network = NETWORK) -> PredictionInput:
    own = step()
    own = replace(own, plan=replace(own.plan, network=network))
    return PredictionInput(before(rows=rows(network, 8)), seen(), own, own, 1.0)


def distances(phases: str = "step") -> dict[str, dict[str, float]]:
    return {row: dict(found) for row, found in _reuse.distances(NETWORK, 8, phases).items()}


def with_last(monkeypatch: pytest.MonkeyPatch, cache: int) -> None:
    limits = Limits(1 << 30, 2, (1, cache))
    monkeypatch.setattr(_reuse, "open_device", lambda name: SimpleNamespace(limits=lambda: limits))


def test_what_was_just_written_is_as_near_as_it_is_large() -> None:
    found = distances()
    assert found["out forward"]["x"] == Y1
    assert found["out wgrad"]["dy"] == Y2 + W2 + Y1  # the dgrad before it had weights too, and wrote one gradient


def test_weights_wait_for_the_next_step() -> None:
    found = distances()
    assert found["out forward"]["w"] == W2 + INPUT + W1 + Y1
    assert found["fc1 forward"]["x"] == INPUT + Y1 + 2 * (W1 + W2)  # fc1's wgrad had it last, before all updates


@pytest.mark.parametrize(("phases", "has"), [("forward", False), ("gradient", False), ("step", True)])
def test_a_phase_has_its_own_rows(phases: str, has: bool) -> None:
    found = distances(phases)
    assert ("fc1 update" in found) == has and ("fc1 wgrad" in found) == (phases != "forward")


@pytest.mark.parametrize(
    ("row", "problem", "cache", "far"),
    [
        ("out forward", Gemm(8, 4, 10), 1000, ""),  # x is in cache, and more than W and y
        ("out wgrad", Gemm(10, 4, 8), 1000, "all"),  # x is not, and is more than dy, which is
        ("out wgrad", Gemm(10, 4, 8), 1100, ""),
        ("out forward", Gemm(4, 8, 10), 1000, ""),  # computed as its transpose: B is x
        ("out wgrad", Gemm(4, 10, 8), 1000, "all"),
        ("out forward", Gemm(8, 4, 10), 1, "all"),
        ("fc1 wgrad", Update(12, 10, 8), 1 << 20, ""),
        ("fc1 wgrad", Update(12, 10, 8), 1, "all"),
        ("somewhere", Gemm(8, 4, 10), 1 << 20, "all"),
        ("out forward", Pooling(8, 4, 8), 1 << 20, "all"),
    ],
)
def test_operands_are_cold_where_most_come_back_after_more_than_a_cache(
    row: str, problem: Problem, cache: int, far: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_last(monkeypatch, cache)
    assert _reuse.cold(asked(), row, problem) == far


def test_of_a_program_nothing_is_known() -> None:
    own = step()
    program = replace(own, script=Script(Path("train.py")))
    found = PredictionInput(before(rows=rows(NETWORK, 8)), seen(), program, program, 1.0)
    assert _reuse.cold(found, "out forward", Gemm(8, 4, 10)) == "all"


def test_of_a_graph_each_convolution_has_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    net = networks.find("resnet-56")
    with_last(monkeypatch, 1 << 20)
    found = {x.stride: set[str]() for one in rows(net, 8).values() for x in one.problems if isinstance(x, Conv)}
    for row, one in rows(net, 8).items():
        for x in one.problems:
            if isinstance(x, Conv) and x.direction == "forward":
                found[x.stride].add(_reuse.cold(asked(net), row, x))
    assert found[2] == {""}  # their inputs were just written, and are more than what they write
    assert "all" in found[1]


def test_an_optimizer_has_what_it_keeps_beside() -> None:
    plain, moved = (_reuse.distances(replace(NETWORK, momentum=m), 8, "step")["fc1 forward"]["x"] for m in (0.0, 0.9))
    assert moved - plain == W1 + W2
