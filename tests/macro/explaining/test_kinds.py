"""The column of a sample, by its symbol, module and span; and the rows that operations serve together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from macro.explaining.kinds import joined, of_symbol
from macro.explaining.rows import OUTSIDE, called, groups, phase, together
from tests.macro.watched import KNOWN, NET

KINDS = json.loads(Path(__file__).with_name("kinds.json").read_text("utf-8"))


@pytest.mark.parametrize(("symbol", "module", "column"), KINDS["symbol, module, column"])
def test_a_symbol_has_a_column(symbol: str, module: str, column: str) -> None:
    assert of_symbol(symbol, module) == column


@pytest.mark.parametrize(("symbol", "span", "column"), KINDS["column of the symbol, of the span, of both"])
def test_a_span_overrules_symbols_of_work_alone(symbol: str, span: str | None, column: str) -> None:
    assert joined(symbol, span) == column


BATCH = NET.batch  # 16; layers of 6 × 5 and 5 × 3


def test_each_layer_has_its_rows_and_the_first_no_dgrad() -> None:
    names = list(KNOWN)
    roles = ("forward", "activation", "activation gradient", "wgrad", "bias gradient", "update")
    assert names[: len(roles)] == [f"fc1 {role}" for role in roles]
    assert "loss" in names and OUTSIDE in names
    assert "fc1 dgrad" not in KNOWN
    product = KNOWN["out dgrad"].product
    assert product is not None and (product.m, product.n, product.k) == (BATCH, 5, 3)
    products = {"fc1 forward", "fc1 wgrad", "out forward", "out dgrad", "out wgrad"}
    assert {row.name for row in KNOWN.values() if row.product} == products


@pytest.mark.parametrize(
    ("role", "of"),
    [("activation", "forward"), ("bias gradient", "backward"), ("dgrad", "backward"), ("update", "update")],
)
def test_a_role_has_a_phase(role: str, of: str) -> None:
    assert phase(role) == KNOWN[f"{'fc1' if role == 'activation' else 'out'} {role}"].phase == of


def test_bytes_are_those_of_one_pass() -> None:
    outputs, weights = 4 * BATCH * 5, 4 * (6 * 5 + 5)
    assert KNOWN["fc1 activation"].bytes == 2 * outputs
    assert KNOWN["fc1 activation gradient"].bytes == 3 * outputs
    assert KNOWN["fc1 update"].bytes == 3 * weights  # read, read, write: no momentum here
    assert KNOWN["loss"].bytes == 2 * 4 * BATCH * 3


def test_what_one_operation_serves_is_one_group_through_all_spans() -> None:
    group = groups([["a", "b"], ["c"], ["d", "e"], ["b", "d"], []], {})
    assert set(group["a"]) == {"a", "b", "d", "e"}
    assert group["a"] == group["b"] == group["d"] == group["e"]
    assert group["c"] == ("c",)


def test_a_span_is_its_group_and_without_rows_outside() -> None:
    group = groups([["a", "b"]], {})
    assert together(["b"], group) == ("a", "b")
    assert together([], group) == (OUTSIDE,)
    assert together(["new"], group) == ("new",)


@pytest.mark.parametrize(
    ("members", "name"),
    [
        (["out update", "fc1 update"], "fc1, out update"),
        (["fc1 update", "fc1 wgrad"], "fc1 wgrad + update"),
        (["fc1 wgrad", "fc1 update", "out wgrad"], "fc1 wgrad + update; out wgrad"),
        (["loss", "out forward"], "out forward; loss"),
        ([OUTSIDE], OUTSIDE),
        (["a stranger", "fc1 forward"], "fc1 forward; a stranger"),
        (["fc1 forward", "fc1 forward"], "fc1 forward"),
    ],
)
def test_a_group_is_called_by_its_layers_and_roles(members: list[str], name: str) -> None:
    assert called(members, KNOWN) == name
