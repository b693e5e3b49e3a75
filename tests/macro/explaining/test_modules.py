"""Module paths, phases and kinds of what PyTorch's profiler told: events made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from macro.explaining.modules import CHECKPOINT, MODULE, NODE, STOPPED, UPDATE, placed, spans, tree
from macro.watching.recording import Event
from reports.explanation import Part

KINDS = json.loads(Path(__file__).with_name("kinds.json").read_text("utf-8"))
LANE, THREAD = 1, 700


def event(name: str, start: int, end: int, sequence: int = -1, forward: int = 0, lane: int = LANE) -> Event:
    return Event(name, start, end, THREAD + lane, sequence, lane, forward)


def rows(*events: Event) -> dict[tuple[str, int], str | None]:
    """By name and start."""
    return {(one.name, one.start): where.row if where else None for one, where, _ in placed(events)}


def columns(*events: Event) -> dict[str, str | None]:
    return {one.name: column for one, _, column in placed(events)}


FORWARD = (
    event(MODULE + "net", 0, 100),
    event(MODULE + "net.fc1", 10, 40),
    event("aten::linear", 11, 39, 5),
    event("aten::addmm", 12, 38, 5),
    event(MODULE + "net.fc2", 50, 90),
    event("aten::linear", 51, 89, 6),
    event("aten::addmm", 52, 88, 6),
)


def test_an_operation_has_the_row_of_the_module_around_it() -> None:
    found = rows(*FORWARD, event("aten::relu", 92, 95, 7))
    assert found["aten::addmm", 12] == "net.fc1 forward" and found["aten::addmm", 52] == "net.fc2 forward"
    assert found["aten::relu", 92] == "net forward"


def test_of_two_that_begin_together_the_longer_is_around_the_other() -> None:
    assert rows(event("aten::mm", 0, 9), event(MODULE + "net", 0, 10))["aten::mm", 0] == "net forward"


def test_backward_is_linked_by_the_number_that_made_it() -> None:
    nodes = (
        event(NODE + "AddmmBackward0", 200, 260, 6, LANE),
        event("AddmmBackward0", 201, 259, 6),
        event("aten::mm", 210, 220),
        event(NODE + "torch::autograd::AccumulateGrad", 262, 270),
        event("aten::detach", 263, 264),
        event(NODE + "AddmmBackward0", 300, 360, 5, LANE),
        event("aten::mm", 310, 320),
    )
    found = rows(*FORWARD, *nodes)
    assert found["aten::mm", 210] == "net.fc2 backward" and found["aten::mm", 310] == "net.fc1 backward"
    assert found["aten::detach", 263] == "net.fc2 backward"  # what adds to a gradient has no number


def test_the_last_operation_with_the_greatest_number_not_above_a_nodes_made_it() -> None:
    """What makes no node shares its number with what follows."""
    early = (event(MODULE + "a", 0, 10), event("aten::empty", 1, 2, 5), event("aten::ones", 3, 4, 5))
    late = (event(MODULE + "b", 20, 30), event("aten::mm", 21, 29, 5))
    found = rows(*early, *late, event(NODE + "MmBackward0", 40, 50, 5, LANE), event("aten::mm", 41, 45))
    assert found["aten::mm", 41] == "b backward"


def test_a_node_told_twice_made_nothing() -> None:
    """Its second event carries the number of the forward operation, and would be taken for one."""
    node = (event(NODE + "MmBackward0", 40, 60, 5, LANE), event("MmBackward0", 41, 59, 5), event("aten::mm", 42, 50, 9))
    again = (event(NODE + "MmBackward0", 70, 80, 9, LANE), event("aten::mm", 71, 75))
    found = rows(event(MODULE + "a", 0, 10), event("aten::mm", 1, 9, 5), *node, *again)
    assert found["aten::mm", 42] == "a backward" and found["aten::mm", 71] == "a double backward"
    other = rows(event(MODULE + "a", 0, 10), event("aten::mm", 1, 9, 5), *node[:2], event(NODE + "X", 65, 69, 5, LANE))
    assert other[NODE + "X", 65] == "a backward"


def test_a_module_that_is_called_in_backward_is_recomputed() -> None:
    node = (event(NODE + "MmBackward0", 0, 50, 3, LANE), event("MmBackward0", 1, 49, 3))
    found = rows(*node, event(MODULE + "net", 4, 30), event(MODULE + "net.l", 5, 20), event("aten::mm", 6, 9, 8))
    assert found["aten::mm", 6] == "net.l recompute"


def test_what_a_reentrant_checkpoint_calls_itself_is_recomputed() -> None:
    """Outside of modules: it makes a graph there, whose nodes are no double backward."""
    made = (event(MODULE + "net", 0, 10), event("CheckpointFunction", 1, 9, 4))
    node = (event(NODE + CHECKPOINT, 20, 90, 4, LANE), event(CHECKPOINT, 21, 89, 4))
    again = (event("aten::linear", 30, 40, 7), event("aten::mm", 31, 39, 7))
    back = (event(NODE + "MmBackward0", 50, 60, 7, LANE), event("MmBackward0", 51, 59, 7), event("aten::mm", 52, 58))
    found = rows(*made, *node, *again, *back)
    assert found["aten::mm", 31] == "net recompute" and found["aten::mm", 52] == "net backward"


@pytest.mark.parametrize(
    ("inside", "kind"),
    [
        ((event("aten::addmm", 7, 12, 9), event("aten::detach", 8, 9, 9), event("detach", 8, 9, 9)), "dispatch"),
        ((event("aten::addmm", 7, 12, 9), event("aten::relu", 14, 15, 10)), "gemm"),
        ((event("aten::tanh", 7, 12, 9), event("aten::detach", 8, 9, 9)), "element-wise"),
    ],
)
def test_the_product_that_a_recomputation_stops_in_is_not_made(inside: tuple[Event, ...], kind: str) -> None:
    """It saves its factors before; what saves its result was made."""
    first = (event("aten::addmm", 1, 3, 8),)
    around = (event(NODE + "AddmmBackward0", 4, 50, 3, LANE), event(MODULE + "net", 5, 30), event(STOPPED, 25, 26))
    after = (event("aten::mm", 40, 45),)
    found = {(one.name, one.start): column for one, _, column in placed((*first, *around, *inside, *after))}
    assert found[inside[0].name, 7] == kind
    assert found["aten::addmm", 1] == found["aten::mm", 40] == "gemm" and found[STOPPED, 25] is None


def test_a_recomputation_stops_in_its_own_thread() -> None:
    stop = (event(MODULE + "net", 0, 9, lane=2), event(STOPPED, 5, 6, lane=2))
    assert columns(event("aten::mm", 1, 2), *stop)["aten::mm"] == "gemm"


@pytest.mark.parametrize("number", [-1, 5])
def test_what_adds_to_a_gradient_is_of_the_node_before_it_in_its_thread(number: int) -> None:
    """The first of a thread has none before it; its own number is none of an operation's."""
    first = (event(NODE + "torch::autograd::AccumulateGrad", 110, 120, number), event("aten::add", 111, 112))
    other = event(NODE + "AddmmBackward0", 130, 140, 5, LANE, lane=2)
    last = event(NODE + "AddmmBackward0", 130, 141, 6, LANE)
    after = (event(NODE + "torch::autograd::AccumulateGrad", 150, 160, number), event("aten::add", 151, 152))
    found = rows(*FORWARD, *first, other, last, *after)
    assert found["aten::add", 111] == "(add) script" and found["aten::add", 151] == "net.fc2 backward"


def test_a_graph_made_elsewhere_is_in_no_module() -> None:
    assert (
        rows(event(NODE + "MmBackward0", 0, 9, 2, LANE), event("aten::mm", 1, 2))["aten::mm", 1]
        == "(no module) backward"
    )


def test_another_thread_has_numbers_of_its_own() -> None:
    ours = (event(MODULE + "a", 0, 10), event("aten::mm", 1, 9, 5))
    theirs = (event(MODULE + "b", 0, 10, lane=2), event("aten::mm", 2, 9, 5, lane=2))
    found = rows(*ours, *theirs, event(NODE + "MmBackward0", 20, 30, 5, 2), event("aten::mm", 21, 22))
    assert found["aten::mm", 21] == "b backward"


def test_a_thread_that_was_not_seen_made_nothing_of_another() -> None:
    found = rows(*FORWARD, event(NODE + "MmBackward0", 120, 130, 6, 9), event("aten::mm", 121, 122))
    assert found["aten::mm", 121] == "(no module) backward"


def test_a_gradient_of_a_gradient_of_a_gradient_is_double_backward() -> None:
    events, number = [*FORWARD], 6
    for start in (200, 300, 400):
        inner = event("aten::mm", start + 2, start + 9, number + 1)
        events += [event(NODE + "X", start, start + 10, number, LANE), event("X", start + 1, start + 9, number), inner]
        number += 1
    found = rows(*events)
    phases = ("backward", "double backward", "double backward")
    assert [found["aten::mm", x] for x in (202, 302, 402)] == [f"net.fc2 {phase}" for phase in phases]


@pytest.mark.parametrize(("name", "row"), KINDS["operation in no module, row"])
def test_what_is_in_no_module_has_a_row(name: str, row: str) -> None:
    found = rows(event(name, 0, 10), event("aten::add", 1, 2))
    assert found["aten::add", 1] == row


def test_passes_of_an_update_are_the_optimizers() -> None:
    found = columns(event(UPDATE + "opt", 0, 90), event("aten::_foreach_mul_", 1, 2), event("aten::zero_", 3, 4))
    assert found["aten::_foreach_mul_"] == "optimizer" and found["aten::zero_"] == "clear"
    assert found[UPDATE + "opt"] is None


def test_a_closure_inside_an_optimizer_has_its_modules_rows() -> None:
    closure = (event(UPDATE + "lbfgs", 0, 90), event(MODULE + "net", 5, 20), event("aten::mul", 6, 9))
    assert rows(*closure)["aten::mul", 6] == "net forward" and columns(*closure)["aten::mul"] == "element-wise"


def test_what_an_operation_that_calls_others_does_itself_is_dispatch() -> None:
    assert columns(*FORWARD)["aten::linear"] == "dispatch" and columns(*FORWARD)["aten::addmm"] == "gemm"
    assert columns(event("mine::op", 0, 1))["mine::op"] is None  # its symbols have to say


def test_spans_tell_rows_kinds_and_threads() -> None:
    found = spans(FORWARD)
    assert [span["rows"] for span in found[:2]] == [["net forward"], ["net.fc1 forward"]]
    assert {span["thread"] for span in found} == {THREAD + LANE}
    assert [span["start"] for span in found] == sorted(span["start"] for span in found)


def cell(path: str, phase: str, seconds: float, column: str = "gemm") -> Part:
    row = f"{path} {phase}"
    return Part(row, path, phase, column, seconds, seconds, seconds, None, None, "", None, None)


def test_a_module_has_all_below_it() -> None:
    found = {x.path: x for x in tree([cell("net.a", "forward", 1.0), cell("net.a.b", "backward", 2.0, "copy")])}
    assert found["net"].phases == found["net.a"].phases == {"forward": 1.0, "backward": 2.0}
    assert found["net.a.b"].phases == {"backward": 2.0} and found["net"].column == "copy"
    assert [x.depth for x in found.values()] == [0, 1, 2] and found["net"].total == 3.0


def test_what_is_in_no_module_is_a_line_of_its_own() -> None:
    lines = tree([cell("(data loader)", "data", 1.0), cell("in no span", "", 0.5), cell("net.x", "forward", 2.0)])
    assert [(x.path, x.depth) for x in lines] == [("net", 0), ("net.x", 1), ("(data loader)", 0), ("in no span", 0)]


def test_alike_siblings_are_folded() -> None:
    layers = [cell(f"net.layers.{i}.{part}", "forward", 1.0) for i in range(12) for part in ("attn", "mlp")]
    lines = {x.path: x for x in tree(layers)}
    assert lines["net.layers.0–11"].count == 12 and lines["net.layers.0–11.attn"].total == 12.0
    assert "net.layers.3" not in lines


def test_siblings_that_differ_are_not() -> None:
    lines = {x.path for x in tree([cell(f"net.{i}.{'ab'[i % 2]}", "forward", 1.0) for i in range(4)])}
    assert {"net.0", "net.1", "net.2", "net.3"} <= lines
