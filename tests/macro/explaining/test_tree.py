"""The cells of a step as a tree of modules."""

from __future__ import annotations

from macro.explaining.tree import modules
from reports.breakdown import Part


def cell(path: str, phase: str, seconds: float, column: str = "gemm") -> Part:
    row = f"{path} {phase}"
    return Part(row, path, phase, column, seconds, seconds, seconds, None, None, "", None, None)


def test_a_module_has_all_below_it() -> None:
    found = {x.path: x for x in modules([cell("net.a", "forward", 1.0), cell("net.a.b", "backward", 2.0, "copy")])}
    assert found["net"].phases == found["net.a"].phases == {"forward": 1.0, "backward": 2.0}
    assert found["net.a.b"].phases == {"backward": 2.0} and found["net"].column == "copy"
    assert [x.depth for x in found.values()] == [0, 1, 2] and found["net"].total == 3.0


def test_what_is_in_no_module_is_a_line_of_its_own() -> None:
    lines = modules([cell("(data loader)", "data", 1.0), cell("in no span", "", 0.5), cell("net.x", "forward", 2.0)])
    assert [(x.path, x.depth) for x in lines] == [("net", 0), ("net.x", 1), ("(data loader)", 0), ("in no span", 0)]


def test_alike_siblings_are_folded() -> None:
    layers = [cell(f"net.layers.{i}.{part}", "forward", 1.0) for i in range(12) for part in ("attn", "mlp")]
    lines = {x.path: x for x in modules(layers)}
    assert lines["net.layers.0–11"].count == 12 and lines["net.layers.0–11.attn"].total == 12.0
    assert "net.layers.3" not in lines


def test_siblings_that_differ_are_not() -> None:
    lines = {x.path for x in modules([cell(f"net.{i}.{'ab'[i % 2]}", "forward", 1.0) for i in range(4)])}
    assert {"net.0", "net.1", "net.2", "net.3"} <= lines
