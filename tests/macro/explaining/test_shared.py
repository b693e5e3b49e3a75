"""The time of an operation that serves several rows: shared by what each touches, unless it is a product."""

from __future__ import annotations

from collections import Counter

import pytest

from macro.explaining.attribute import Attribution
from macro.explaining.rows import Row, groups, rows, together
from macro.explaining.shared import shared, split
from macro.networks import find

KNOWN = rows(find("resnet-56"), 16)
TWO = ("norm1 forward", "norm1 activation")
BYTES = [KNOWN[name].bytes for name in TWO]


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
