"""A step of AlexNet-S in the form of its authors' trace."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from reports import authors
from reports.explanation import Cell, Explanation
from tests.reports.made_gap import told


def cell(row: str, column: str, a: float, b: float, seen: str = "") -> Cell:
    layer, roles = row.split(" ", 1) if " " in row else ("", row)
    members = tuple(f"{layer} {role}".strip() for role in roles.split(" + "))
    return Cell(row, column, a, b, 0.0, 0.0, None, None, {}, {"a": seen, "b": seen}, members)


CELLS = (
    cell("conv2 forward", "convolution", 0.30, 0.10),
    cell("conv2 dgrad", "convolution", 0.05, 0.0, "fft_r2c"),
    cell("conv1 dgrad", "convolution", 0.05, 0.0),
    cell("fc6 dgrad + wgrad", "gemm", 0.10, 0.0),
    cell("fc6 wgrad", "packing", 0.0, 0.2),
    cell("fc6 dgrad", "gemm", 0.0, 0.05),
    cell("fc6 forward + activation", "gemm", 0.05, 0.05),
    cell("fc6 dgrad + wgrad", "OS memory", 0.05, 0.0),
    cell("fc6 update", "optimizer", 0.20, 0.1),
    cell("conv1 activation", "element-wise", 0.05, 0.1),
    cell("pool1 gradient", "pooling", 0.05, 0.1),
    cell("layout", "packing", 0.05, 0.2),
    cell("loss", "softmax and loss", 0.05, 0.0),
)


@pytest.fixture
def explained() -> Explanation:
    return replace(told(), network="alexnet-s", phase="step", step={"a": 1.0, "b": 1.0}, cells=CELLS)


def test_every_cell_has_one_place_and_the_rest_closes(explained: Explanation) -> None:
    said = authors.lines(explained)
    rows = {re.split("  +", line.strip())[0]: line.split()[-3:] for line in said[2:-2]}
    assert rows["convolutions"] == ["32.9%", "30.0%", "10.0%"]
    assert rows["conv2 by FFT"] == ["12.1%", "5.0%", "0.0%"]
    assert rows["gradient of the images"] == ["3.7%", "5.0%", "0.0%"]
    assert rows["fc, gradients of weights"] == ["3.5%", "0.0%", "20.0%"]
    assert rows["fc, other products"] == ["11.1%", "15.0%", "10.0%"]
    assert rows["memory from the system"] == ["0.0%", "5.0%", "0.0%"]
    assert rows["ReLU, bias, pooling"] == ["6.6%", "10.0%", "20.0%"]
    assert rows["layouts changed"] == ["11.1%", "5.0%", "20.0%"]
    assert rows["the rest"][1:] == ["5.0%", "10.0%"]
    assert f"2.7 times in theirs, 1.3 times in {explained.a} (of both its gradients)" in said[-1]
    assert said[-1].endswith(f"0.5 times in {explained.b}.")


@pytest.mark.parametrize("changed", [{"network": "fcn-r"}, {"phase": "forward"}])
def test_of_others_there_is_nothing(explained: Explanation, changed: dict[str, str]) -> None:
    assert authors.lines(replace(explained, **changed)) == []  # type: ignore[arg-type]


def test_its_variants_have_it_too(explained: Explanation) -> None:
    assert authors.lines(replace(explained, network="alexnet-s:tf"))
