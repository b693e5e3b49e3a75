"""Cross-checks of attributed times: logs, repeats and knock-outs of a script, replays of a framework's step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from macro.explaining import breakdown, operation_work
from macro.explaining.modules import MODULE, NODE, UPDATE
from macro.explaining.rows import groups
from macro.explaining.witnesses import Agreement, agreement, closure, largest, of_process
from macro.watching.perf import Sample
from macro.watching.recording import Called, Event, Recording, Watched
from macro.watching.watch import Side
from reports.explanation import Witness
from tests.macro.watched import KNOWN, attribution, side

MS = 1_000_000
STEP, ROUNDS = 20, 12  # ms, steps
GEMM = ("mkl_blas_avx512_sgemm_kernel", "/usr/lib/libtorch_cpu.so")


def event(name: str, start: float, end: float, sequence: int = -1, forward: int = 0) -> Event:
    return Event(name, int(start * MS), int(end * MS), 1, sequence, 1, forward)


def step(at: float, first: str, second: str) -> Iterator[Event]:
    """Two layers: forward 2 ms each, backward 4 ms (two products) and 6 ms, an update of 4 ms."""
    for i, name in enumerate((first, second)):
        yield event(MODULE + name, at + 2 * i, at + 2 * i + 2)
        yield event("aten::addmm", at + 2 * i, at + 2 * i + 2, 5 + i)
    yield event(NODE + "AddmmBackward0", at + 4, at + 10, 6, 1)
    yield event("aten::mm", at + 4, at + 10)
    yield event(NODE + "AddmmBackward0", at + 10, at + 14, 5, 1)
    yield event("aten::mm", at + 10, at + 11)
    yield event("aten::mm", at + 11, at + 14)
    yield event(UPDATE + "optimizer", at + 14, at + 18)


def recorded(saved: float, path: str, about: dict[str, Any], names: tuple[str, str] = ("net.a", "net.b")) -> Recording:
    """Steps of 18 ms, one a round; without `path` they take `saved` ms less."""
    watched = Watched(rounds=list(range(ROUNDS)), period=MS, system=[0.0], faults=[0.0])
    for number in range(ROUNDS):
        at = 100.0 * number
        watched.steps.append((int(at * MS), int((at + STEP) * MS), 18e-3, 0.0))
        watched.events += step(at, *names)
        watched.samples += [Sample(1, int((at + ms + 0.5) * MS), *GEMM) for ms in range(18)]
    plain = [18e-3 + 1e-5 * (i % 3) for i in range(ROUNDS)]
    watched.levels = {"P0": plain, "P3": plain, f"without {path}": [x - saved * 1e-3 for x in plain]}
    watched.faulted = {"P0": [0.0], "P3": [0.0]}
    made, others = [[64, 8], [8, 32]], [[8, 32], [32, 64]]
    events = list(step(0.0, *names))
    gradient = next(one for one in events if one.name == "aten::mm" and one.start == 11 * MS)
    called = [Called(one, made if one is gradient else others, [], ["float"] * 2, []) for one in events]
    program = {"script": "train.py", "threads": 1, "heap": "keep", "step": "optimizer.step()", "without": {path: about}}
    return Recording({**program, "parameters": [["SGD", 4096, 16384]]}, [watched], None, called)


def witness(recording: Recording) -> tuple[float | None, float, str]:
    found = breakdown.taken_apart(recording, 1.0, breakdown.Ceilings(None, None))
    (one,) = [x for x in found.witnesses if x.name.startswith("without")]
    return one.attributed, one.seen, one.verdict


MODULE_B = {"what": "module", "count": 2048, "shape": []}
WEIGHT_A = {"what": "parameter", "count": 2048, "shape": [64, 32]}


def test_a_module_that_is_skipped_saves_its_rows_and_its_share_of_the_update() -> None:
    said, seen, verdict = witness(recorded(10.0, "net.b", MODULE_B))
    assert said == pytest.approx(2e-3 + 6e-3 + 2e-3) and seen == pytest.approx(10e-3) and verdict == "agree"


def test_a_frozen_parameter_saves_the_product_that_makes_its_gradient() -> None:
    said, _, verdict = witness(recorded(5.0, "net.a.weight", WEIGHT_A))
    assert said == pytest.approx(3e-3 + 2e-3) and verdict == "agree"


def test_exchanged_labels_disagree_with_a_knock_out() -> None:
    """What was seen does not know them."""
    said, _, verdict = witness(recorded(10.0, "net.b", MODULE_B, names=("net.b", "net.a")))
    assert said == pytest.approx(2e-3 + 4e-3 + 2e-3) and verdict == "disagree"


def test_a_gradient_that_no_product_makes_cannot_be_foretold() -> None:
    said, _, verdict = witness(recorded(5.0, "net.a.weight", {**WEIGHT_A, "shape": [3, 3]}))
    assert (said, verdict) == (None, "cannot tell")


def test_steps_that_differ_too_much_cannot_tell() -> None:
    made = recorded(10.0, "net.b", MODULE_B)
    (watched,) = made.processes
    noisy = [x + 12e-3 * (-1) ** i for i, x in enumerate(watched.levels["without net.b"])]
    made.processes = [replace(watched, levels={**watched.levels, "without net.b": noisy})]
    assert witness(made)[2] == "cannot tell"


ROW = {"row": "net.b backward", "column": "gemm"}


def witnesses(names: tuple[str, str] = ("net.a", "net.b"), **program: Any) -> list[Witness]:
    made = recorded(10.0, "net.b", MODULE_B, names)
    made = Recording({**made.program, **program}, made.processes, None, made.called)
    found = breakdown.taken_apart(made, 1.0, breakdown.Ceilings(None, None))
    return list(of_process(found, operation_work.work_of(made.called)))


def test_largest_calls_are_chosen_with_what_they_were_called_with() -> None:
    """Those of which the shapes are known; the row with two products first."""
    told = largest(recorded(10.0, "net.b", MODULE_B))
    assert [(one["row"], one["column"]) for one in told] == [("net.a backward", "gemm"), ("net.b backward", "gemm")]
    assert told[0]["call"]["name"] == "aten::mm" and told[0]["call"]["types"] == ["float", "float"]


@pytest.mark.parametrize(
    ("logged", "verdict"),
    [
        ({"MKL SGEMM": 13e-3, "oneDNN reorder": 5e-3}, "agree"),
        ({"MKL SGEMM": 25e-3}, "disagree"),
        ({"MKL SGEMM": 9e-3}, "cannot tell"),  # the framework may multiply itself
    ],
)
def test_products_against_the_logs_of_libraries(logged: dict[str, float], verdict: str) -> None:
    (one,) = witnesses(logged=logged)
    assert one.verdict == verdict and one.seen == pytest.approx(sum(logged.values()))
    assert one.attributed == pytest.approx(18e-3, rel=0.01)


@pytest.mark.parametrize(
    ("warm", "cold", "seen", "verdict"),
    [
        (5.5, 7.0, 5.5, "agree"),  # said: 6 ms
        (7.0, 5.5, 5.5, "agree"),
        (6.5, 7.0, 6.5, "agree"),
        (2.0, 12.0, 2.0, "cannot tell"),  # as good as anything would be between
        (2.0, 3.0, 3.0, "disagree"),
        (9.0, 10.0, 9.0, "disagree"),
    ],
)
def test_a_call_against_itself_alone(warm: float, cold: float, seen: float, verdict: str) -> None:
    (one,) = witnesses(again=[{**ROW, "warm": warm * 1e-3, "cold": cold * 1e-3}])
    assert one.attributed == pytest.approx(6e-3, rel=0.01) and one.seen == pytest.approx(seen * 1e-3, rel=0.01)
    assert one.verdict == verdict


def test_with_two_threads_or_fresh_memory_nothing_is_red() -> None:
    again = [{**ROW, "warm": 2e-3, "cold": 3e-3}]
    assert witnesses(again=again)[0].verdict == "disagree"
    assert witnesses(again=again, heap="default")[0].verdict == "cannot tell"
    assert witnesses(logged={"MKL SGEMM": 90e-3}, threads=2)[0].verdict == "cannot tell"


def test_exchanged_labels_disagree_with_repeated_calls() -> None:
    (one,) = witnesses(("net.b", "net.a"), again=[{**ROW, "warm": 5e-3, "cold": 7e-3}])
    assert one.attributed == pytest.approx(2e-3, rel=0.01) and one.verdict == "disagree"


def test_what_nobody_told_has_no_witness() -> None:
    assert witnesses() == []
    assert witnesses(again=[{"row": "net.gone forward", "column": "gemm", "warm": 5e-3, "cold": 7e-3}]) == []


# Calls of a framework's step, replayed

FORWARD, UPDATES, LOSS, OUTSIDE = ("fc1 forward",), ("fc1 update",), ("loss",), ("in no span",)
TOLD = attribution(
    {
        (FORWARD, "gemm"): [0.4, 0.4, 0.4],
        (FORWARD, "packing"): [0.1, 0.1, 0.1],
        (UPDATES, "optimizer"): [0.2, 0.2, 0.2],
        (LOSS, "softmax and loss"): [0.04, 0.04, 0.04],
        (OUTSIDE, "interpreter"): [0.2, 0.2, 0.2],
    }
)


def replayed(*seconds: list[float], calls: list[tuple[list[str], str]] | None = None) -> Side:
    """Of a step of one second: each call's seconds, a replay each."""
    made = side([1.0, 1.0, 1.0])
    made.processes[0].calls = calls or [(["fc1 forward"], "gemm"), (["fc1 update"], "update")]
    made.processes[0].replays = [(1.0, row) for row in seconds]
    return made


def verdicts(found: list[Agreement]) -> dict[str, str]:
    return {x.row: x.verdict for x in found}


def test_rows_agree_or_do_not_and_small_ones_are_not_asked() -> None:
    found = agreement("a", replayed([0.46, 0.3], [0.46, 0.3]), [TOLD], {}, KNOWN)
    assert verdicts(found) == {"fc1 forward": "agree", "fc1 update": "disagree"}
    assert [(x.side, x.trace, x.replay) for x in found] == [
        ("a", pytest.approx(0.5), pytest.approx(0.46)),
        ("a", pytest.approx(0.2), pytest.approx(0.3)),
    ]


@pytest.mark.parametrize(
    ("again", "verdict"), [(0.551, "disagree"), (0.549, "agree"), (0.451, "agree"), (0.449, "disagree")]
)
def test_a_tenth_of_the_row_is_the_margin(again: float, verdict: str) -> None:
    found = agreement("a", replayed([again, 0.2], [again, 0.2]), [TOLD], {}, KNOWN)
    assert verdicts(found)["fc1 forward"] == verdict


@pytest.mark.parametrize(
    ("replays", "verdict"),
    [((0.250, 0.251), "cannot tell"), ((0.195, 0.205), "cannot tell"), ((0.6, 0.61), "disagree")],
)
def test_what_scatters_agrees_only_where_a_tenth_is_excluded(replays: tuple[float, float], verdict: str) -> None:
    scattered = attribution({(UPDATES, "optimizer"): [0.15, 0.2, 0.25, 0.2]})
    (found,) = agreement("b", replayed(*([0.5, x] for x in replays)), [scattered], {}, KNOWN)
    assert found.sigma == pytest.approx(math.hypot(math.sqrt(0.005 / 3 / 4), (replays[1] - replays[0]) / 2))
    assert found.verdict == verdict


def test_steps_of_one_round_are_one_of_it() -> None:
    """Twenty of two rounds that differ by a third are no twenty."""
    steps = [0.16] * 10 + [0.24] * 10
    told = attribution({(UPDATES, "optimizer"): steps}, rounds=[0] * 10 + [1] * 10)
    (found,) = agreement("b", replayed([0.5, 0.2], [0.5, 0.2]), [told], {}, KNOWN)
    assert (found.trace, found.sigma, found.verdict) == (pytest.approx(0.2), pytest.approx(0.04), "cannot tell")


def test_one_replay_tells_nothing() -> None:
    assert verdicts(agreement("a", replayed([0.5, 0.2]), [TOLD], {}, KNOWN))["fc1 forward"] == "cannot tell"


def test_a_row_that_is_not_replayed_has_one_witness() -> None:
    (_, found) = agreement("a", replayed([0.5], calls=[(["fc1 forward"], "gemm")]), [TOLD], {}, KNOWN)
    assert (found.row, found.verdict, found.replay) == ("fc1 update", "one witness", None)
    assert {x.verdict for x in agreement("a", side([1.0]), [TOLD], {}, KNOWN)} == {"one witness"}


def test_rows_of_one_group_are_one_row_of_both_witnesses() -> None:
    group = groups([["fc1 forward", "fc1 activation"]], {})
    calls = [(["fc1 forward"], "gemm"), (["fc1 activation"], "element-wise")]
    told = attribution({(("fc1 forward", "fc1 activation"), "gemm"): [0.5, 0.5]})
    (found,) = agreement("a", replayed([0.3, 0.2], [0.3, 0.2], calls=calls), [told], group, KNOWN)
    assert (found.row, found.verdict) == ("fc1 forward + activation", "agree")
    assert found.replay == pytest.approx(0.5)


def test_a_replay_closes_with_and_without_what_only_frees() -> None:
    calls = [(["fc1 forward"], "gemm"), (["free gradients"], "free")]
    told = closure(replayed([0.8, 0.2], [0.9, 0.3], [0.7, 0.1], calls=calls))
    assert told == {"replay": pytest.approx(1.0), "replay without frees": pytest.approx(0.8)}
    assert closure(side([1.0])) == {"replay": None, "replay without frees": None}


def test_a_recording_that_does_more_than_the_step_is_caught() -> None:
    """An `add` that was in place, replayed as one that is not."""
    calls = [(["fc1 forward"], "gemm"), (["fc1 update"], "update"), (["fc1 update"], "copy")]
    told = closure(replayed([0.8, 0.2, 0.1], [0.8, 0.2, 0.1], calls=calls))
    assert told["replay"] == pytest.approx(1.1)
