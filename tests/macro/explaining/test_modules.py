"""Module paths, phases and kinds of what PyTorch's profiler told: events made by hand."""

from __future__ import annotations

import pytest

from macro.explaining.modules import MODULE, NODE, UPDATE, placed, spans
from macro.watching.recording import Event

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
    found = rows(
        event(NODE + "CheckpointBackward", 0, 50, 3, LANE), event(MODULE + "net.l", 5, 20), event("aten::mm", 6, 9, 8)
    )
    assert found["aten::mm", 6] == "net.l recompute"


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


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "(data loader) data"),
        ("Optimizer.zero_grad#Adam.zero_grad", "(Adam.zero_grad) zero"),
        ("aten::cross_entropy_loss", "(cross_entropy_loss) loss"),
        ("aten::item", "(item) logging"),
        ("aten::to", "(to) copy"),
        ("aten::randint", "(randint) script"),
        (UPDATE + "optimizer", "optimizer update"),
    ],
)
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
