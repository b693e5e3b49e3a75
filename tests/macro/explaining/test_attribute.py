"""Samples joined with spans: where a step's time went, its waiting, and spans alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from macro.explaining.attribute import Attribution, Place, attribute, locate, shared, split
from macro.explaining.rows import Row, groups, rows, together
from macro.networks import find
from macro.watching.perf import Switch
from macro.watching.recording import Watched
from tests.macro.explaining.sides import recorded
from tests.macro.watched import GEMM, MS, PYTHON, sample, span, watched

KNOWN = rows(find("resnet-56"), 16)
TWO = ("norm1 forward", "norm1 activation")
BYTES = [KNOWN[name].bytes for name in TWO]

NOTHING = Place((), None, False)
UNKNOWN = ("[unknown]", "/usr/lib/new.so")
FORWARD, WGRAD, OUTSIDE, WAITING = ("fc1 forward",), ("fc1 wgrad",), ("in no span",), ("waiting",)


def ms(found: Attribution) -> dict[tuple[tuple[str, ...], str], list[float]]:
    """The cells in milliseconds."""
    return {key: [round(x * 1e3, 6) for x in seconds] for key, seconds in found.cells.items()}


def places(spans: list[dict[str, Any]], *at: float, thread: int = 1) -> list[tuple[str, ...]]:
    return [place.rows for place in locate(spans, [sample(x, thread=thread) for x in at])]


def test_a_sample_belongs_to_the_innermost_span_with_rows() -> None:
    spans = [span(0, 10, "a"), span(2, 8, column="copy"), span(4, 6, "b", column="update")]
    found = locate(spans, [sample(x) for x in (1, 3, 5, 7, 9, 11)])
    assert [x.rows for x in found] == [("a",), ("a",), ("b",), ("a",), ("a",), ()]
    assert [x.column for x in found] == ["gemm", "copy", "optimizer", "copy", "gemm", None]
    assert [x.inside for x in found] == [True] * 5 + [False]


def test_a_span_without_rows_is_no_place_but_tells_what_it_does() -> None:
    (found,) = locate([span(0, 10, column="copy")], [sample(5)])
    assert found == Place((), "copy", False, "x")


def test_a_span_in_the_background_is_no_place_of_other_threads() -> None:
    spans = [{**span(0, 10, "framework", thread=2), "background": True}, span(2, 4, "a", thread=2)]
    assert places(spans, 1, 3, thread=2) == [("framework",), ("a",)]
    assert places(spans, 1, 3, thread=1) == [(), ("a",)]


def test_at_a_border_the_later_span_counts_and_order_does_not() -> None:
    spans = [span(0, 5, "a"), span(5, 10, "b")]
    assert places(spans, 0, 5, 10) == [("a",), ("b",), ("b",)]
    assert places(spans[::-1], 10, 5, 0) == [("b",), ("b",), ("a",)]


def test_a_thread_with_spans_of_its_own_has_those() -> None:
    spans = [span(0, 10, "a", thread=1), span(2, 4, "b", thread=2)]
    assert places(spans, 3, thread=1) == [("a",)]
    assert places(spans, 3, thread=2) == [("b",)]
    assert places(spans, 3, thread=3) == [("b",)]  # a pool's: whoever began last
    assert places(spans, 11, thread=1) == [()]


def test_samples_are_seconds_of_rows_columns_and_steps() -> None:
    spans = [span(0, 4, "fc1 forward"), span(10, 13, "fc1 wgrad", bytes=7)]
    samples = [sample(x) for x in (1, 2, 3)] + [sample(5, PYTHON), sample(7)]  # 7: between the steps
    samples += [sample(11), sample(12, UNKNOWN), sample(13.5, UNKNOWN)]
    made = watched((0, 6), (10, 14), spans=spans, samples=samples, switches=[])
    found = attribute(made, groups((x["rows"] for x in spans), {}), 1)
    assert ms(found) == {
        (FORWARD, "gemm"): [3, 0],
        (OUTSIDE, "interpreter"): [1, 0],
        (WGRAD, "gemm"): [0, 2],
        (OUTSIDE, "unknown: new.so"): [0, 1],
    }
    assert found.closure == pytest.approx({"sampling": 7 / 10, "span": 5 / 7, "naming": 6 / 7, "threads": 1})
    assert found.calls == {(FORWARD, "gemm"): 0.5, (WGRAD, "gemm"): 0.5}
    assert found.bytes == {(FORWARD, "gemm"): 0, (WGRAD, "gemm"): 3.5}
    assert found.seen[(WGRAD, "gemm")].most_common() == [(f"{GEMM[0]} (libopenblas.so)", 1), ("[unknown] (new.so)", 1)]


def test_lost_samples_are_seen_in_a_closure_and_nothing_is_rescaled() -> None:
    spans = [span(0, 10, "fc1 forward")]
    samples = [sample(x + 0.5) for x in range(0, 10, 2)]  # each second one is lost
    found = attribute(watched((0, 10), spans=spans, samples=samples), {}, 1)
    assert found.closure["sampling"] == pytest.approx(0.5)
    assert ms(found) == {(FORWARD, "gemm"): [5]}


def test_calls_are_spans_without_one_of_their_kind_inside() -> None:
    spans = [
        span(0, 9, "fc1 update", column="update"),
        span(1, 2, "fc1 update", column="update"),
        span(3, 4, "fc1 update", column="update"),
        span(5, 6, "fc1 update", column="copy"),
        span(30, 31, "fc1 update", column="update"),
    ]
    found = attribute(watched((0, 10), spans=spans, samples=[sample(1)]), {}, 1)
    assert found.calls == {(("fc1 update",), "optimizer"): 2, (("fc1 update",), "copy"): 1}


def test_products_are_what_spans_say_that_they_make() -> None:
    """Each of its rows as often as it is made, whatever lies inside; a part is told with its operation."""
    whole = {**span(0, 9, "conv1 dgrad", "conv1 wgrad", column="convolution"), "product": 1.0}
    inner = span(1, 2, "conv1 dgrad", "conv1 wgrad", column="convolution")
    again = {**span(12, 13, "conv1 wgrad", column="convolution"), "product": 0.5}
    spans = [whole, inner, again, {**again, "start": 30 * MS, "end": 31 * MS}]
    group = groups((x["rows"] for x in spans), {})
    found = attribute(watched((0, 10), (11, 14), spans=spans, samples=[sample(1)]), group, 1)
    assert found.products == {("conv1 dgrad", "conv1 wgrad"): {"conv1 dgrad": 0.5, "conv1 wgrad": 0.75}}


def test_what_helps_an_operation_is_no_call_of_its_own() -> None:
    parts = [{**span(at, at + 1, "fc1 forward", column="gemm"), "part": True} for at in (1, 3, 12)]
    found = attribute(
        watched((0, 14), spans=[span(0, 9, "fc1 forward", column="gemm"), *parts], samples=[sample(1)]), {}, 1
    )
    assert found.calls == {(("fc1 forward",), "gemm"): 1}


def test_rows_that_belong_together_are_one_cell() -> None:
    spans = [span(0, 4, "fc1 forward"), span(5, 8, "fc1 forward", "fc1 activation")]
    group = groups((x["rows"] for x in spans), {})
    found = attribute(watched((0, 9), spans=spans, samples=[sample(1), sample(6)]), group, 1)
    assert ms(found) == {(("fc1 forward", "fc1 activation"), "gemm"): [2]}


def test_without_spans_all_is_outside_and_no_closure_of_spans() -> None:
    found = attribute(watched((0, 4), samples=[sample(1), sample(2, PYTHON)], traces=False), {}, 1)
    assert ms(found) == {(OUTSIDE, "gemm"): [1], (OUTSIDE, "interpreter"): [1]}
    assert found.closure["span"] is None


# Waiting


def test_waiting_of_two_threads_lies_in_the_row_that_was_open() -> None:
    spans = [span(0, 6, "fc1 forward"), span(8, 10, "fc1 wgrad")]
    switches = [Switch(2, 2 * MS, "out"), Switch(2, 9 * MS, "in")]
    samples = [sample(x, thread=1) for x in range(1, 10)] + [sample(1, thread=2)]
    found = ms(attribute(watched((0, 10), spans=spans, samples=samples, switches=switches), {}, 2))
    assert found[(FORWARD, "waiting")] == [2] and found[(WGRAD, "waiting")] == [0.5]  # 4 ms and 1 ms of one in two
    assert found[(WAITING, "waiting")] == [1]  # between the spans
    assert sum(x for (seconds,) in found.values() for x in [seconds]) == pytest.approx(10 / 2 + 3.5)


def test_a_thread_pushed_aside_does_not_wait() -> None:
    switches = [Switch(1, 2 * MS, "preempt"), Switch(1, 6 * MS, "in")]
    found = attribute(watched((0, 8), samples=[sample(1)], switches=switches), {}, 1)
    assert all(column != "waiting" for _, column in found.cells)
    assert attribute(
        watched(
            (0, 8), samples=[sample(1)], switches=[x._replace(state="out") if x.state != "in" else x for x in switches]
        ),
        {},
        1,
    ).cells[(WAITING, "waiting")] == [pytest.approx(4e-3)]


def test_a_step_too_short_for_a_sample_is_no_waiting() -> None:
    """Of a round's steps, which perf saw without a break, most may hold neither sample nor switch."""
    steps = [(x, x + 0.4) for x in (0, 1, 2, 3)]
    made = watched(*steps, samples=[sample(2.2)], switches=[Switch(1, int(3.3 * MS), "out")])
    found = ms(attribute(made, {}, 1))
    assert found == {(OUTSIDE, "gemm"): [0, 0, 1, 0], (WAITING, "waiting"): [0, 0, 0, pytest.approx(0.1)]}


def test_rounds_are_looked_at_by_themselves() -> None:
    """perf was off between them: a thread that slept at the end of one may run at the start of the next."""
    made = watched((0, 4), (10, 14), rounds=[0, 1], samples=[sample(1), sample(12)])
    made.switches = [Switch(1, 3 * MS, "out"), Switch(1, 13 * MS, "out")]
    assert ms(attribute(made, {}, 1))[(WAITING, "waiting")] == [1, 1]


def test_waiting_through_the_end_of_a_step_is_each_steps_own_part() -> None:
    made = watched((0, 4), (10, 14), samples=[sample(1)])
    made.switches = [Switch(1, 2 * MS, "out"), Switch(1, 13 * MS, "in")]
    assert ms(attribute(made, {}, 1))[(WAITING, "waiting")] == [2, 3]


@pytest.mark.parametrize(
    ("other", "waits"),
    [
        (span(6, 10, "b", thread=2), {("a",): [2]}),
        (span(0, 10, "framework", thread=2), {("a",): [2]}),
        (span(3, 10, "b", thread=2), {("a",): [1], WAITING: [1]}),
        (span(3, 10, "a", thread=2), {("a",): [2]}),
    ],
)
def test_spans_on_several_threads_tell_the_row_of_waiting_where_it_is_one(
    other: dict[str, Any], waits: dict[tuple[str, ...], list[float]]
) -> None:
    switches = [Switch(1, 2 * MS, "out"), Switch(1, 4 * MS, "in")]
    spans = [span(0, 6, "a", thread=1), other]
    found = ms(attribute(watched((0, 10), spans=spans, samples=[sample(1)], switches=switches), {}, 1))
    assert {rows: seconds for (rows, column), seconds in found.items() if column == "waiting"} == waits


def test_a_span_that_ends_after_the_step_waits_within_it() -> None:
    switches = [Switch(1, 6 * MS, "out")]
    made = watched((0, 8), spans=[span(4, 20, "fc1 forward")], samples=[sample(5)], switches=switches)
    assert ms(attribute(made, {}, 1))[(FORWARD, "waiting")] == [2]


# Spans alone


def alone(made: Watched, threads: int = 1) -> tuple[dict[tuple[tuple[str, ...], str], list[float]], Any]:
    found = attribute(made, {}, threads)
    assert found.closure["sampling"] is None and found.closure["naming"] is None
    return ms(found), found.closure["span"]


def test_without_samples_a_span_has_its_time_less_what_lies_inside() -> None:
    spans = [span(0, 6, "fc1 forward", column=None), span(1, 3, column="copy"), span(4, 5, "fc1 wgrad")]
    cells, closure = alone(watched((0, 8), (10, 12), spans=[*spans, span(10, 11, "fc1 wgrad")]))
    assert cells == {(FORWARD, "dispatch"): [3, 0], (FORWARD, "copy"): [2, 0], (WGRAD, "gemm"): [1, 1]}
    assert closure == pytest.approx(7 / 10)


@pytest.mark.parametrize("threads", [1, 2])
def test_spans_alone_are_seconds_of_the_wall_on_any_number_of_threads(threads: int) -> None:
    cells, closure = alone(watched((0, 8), spans=[span(0, 6, "fc1 forward")]), threads)
    assert cells == {(FORWARD, "gemm"): [6]} and closure == pytest.approx(0.75)


def test_a_span_has_no_time_after_its_step() -> None:
    cells, closure = alone(watched((0, 8), (10, 12), spans=[span(5, 11, "fc1 forward"), span(8.5, 9, "x")]))
    assert cells == {(FORWARD, "gemm"): [3, 0]} and closure == pytest.approx(0.3)


def test_spans_that_overlap_in_part_are_counted_once() -> None:
    spans = [span(0, 10, "a"), span(2, 4, "b"), span(3, 6, "c"), span(8, 12, "d")]
    cells, closure = alone(watched((0, 20), spans=spans))
    assert cells == {(("a",), "gemm"): [4], (("b",), "gemm"): [1], (("c",), "gemm"): [3], (("d",), "gemm"): [4]}
    assert closure == pytest.approx(12 / 20)


# A recorded step of NumPy's


def test_recorded_steps_close() -> None:
    made = recorded()
    found = attribute(made, groups((x["rows"] for x in made.spans), {}), 1)
    seconds = sum(sum(x) for x in found.cells.values())
    assert found.closure["naming"] == 1 and "waiting" not in {column for _, column in found.cells}
    inside = [s for s in made.samples if any(a <= s.time <= b for a, b, *_ in made.steps)]
    assert seconds == pytest.approx(len(inside) * 1e-3) and len(inside) >= 6
    assert found.calls[(("fc2 wgrad",), "gemm")] == 1
    assert found.calls[(("fc1 activation",), "element-wise")] == 4
    assert (("fc1 dgrad",), "gemm") not in found.calls
    made.samples = []
    _, closure = alone(made)
    assert 0.3 < closure < 1  # it was pushed aside in one


def attributed(*keys: tuple[tuple[str, ...], str]) -> Attribution:
    made = Attribution(2, [0, 1], {key: [1.0, 2.0] for key in keys})
    made.calls = made.bytes = dict.fromkeys(keys, 4.0)
    made.seen = {key: Counter({"fused": 3}) for key in keys}
    made.faults = {rows: 6.0 for rows, _ in keys}
    return made


def test_what_passes_over_the_data_of_several_rows_is_shared_by_their_bytes() -> None:
    group = groups([TWO, ["conv1 forward"]], KNOWN)
    assert together(TWO, group) == TWO and group[TWO[0]] == (TWO[0],)
    found = shared(attributed((TWO, "normalization")), group, KNOWN)
    first, second = (found.cells[(name,), "normalization"] for name in TWO)
    assert [x + y for x, y in zip(first, second, strict=True)] == pytest.approx([1.0, 2.0])
    assert first[0] / second[0] == pytest.approx(BYTES[0] / BYTES[1])
    assert sum(found.calls.values()) == pytest.approx(4.0) and sum(found.faults.values()) == pytest.approx(6.0)
    assert found.seen[(TWO[1],), "normalization"]["fused"] == 3


def test_a_whole_stage_of_residual_blocks_is_no_one_row() -> None:
    chain = [("stage1.0.add forward", "stage1.1.norm1 gradient"), ("stage1.1.norm1 gradient", "stage1.1.add forward")]
    group = groups(chain, KNOWN)
    assert all(group[name] == (name,) for names in chain for name in names)


def test_a_product_keeps_its_rows_together() -> None:
    fused = ("conv1 forward", "norm1 forward")
    group = groups([fused, TWO], KNOWN)
    assert group[fused[0]] == group[fused[1]] == fused
    found = shared(attributed((fused, "convolution"), (TWO, "normalization")), group, KNOWN)
    assert found.cells[fused, "convolution"] == [1.0, 2.0]
    share = BYTES[0] / sum(BYTES)  # of what both do, the group of the product has that of its member
    assert found.cells[fused, "normalization"][0] == pytest.approx(share)


@pytest.mark.parametrize("other", ["layout", "unheard of", "loss"])
def test_what_touches_no_known_data_is_joined(other: str) -> None:
    names = ("norm1 forward", other)
    if other == "loss":
        assert groups([names], KNOWN)["norm1 forward"] == ("norm1 forward",)  # logits are data
    else:
        assert groups([names], KNOWN)["norm1 forward"] == names


def test_calls_that_no_span_has_are_of_their_first_group() -> None:
    assert split({("new", "norm1 forward"): 2.0}, {}, KNOWN) == {("new",): 2.0}
    known: dict[str, Row] = {}
    assert split({("a", "b"): 2.0}, {"a": ("a", "b"), "b": ("a", "b")}, known) == {("a", "b"): 2.0}
