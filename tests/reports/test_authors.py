"""A step of AlexNet-S in the form of its authors' trace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports import authors
from reports.explanation import Cell, Explanation
from tests.reports.made_gap import told


def cell(row: str, column: str, a: float, b: float, seen: str = "") -> Cell:
    return Cell(row, column, a, b, 0.0, 0.0, None, None, {}, {"a": seen, "b": seen}, (row,))


CELLS = (
    cell("conv2 forward", "convolution", 0.30, 0.10),
    cell("conv2 dgrad", "convolution", 0.05, 0.0, "fft_r2c"),
    cell("conv1 dgrad", "convolution", 0.05, 0.0),
    cell("fc6 wgrad", "gemm", 0.10, 0.2),
    cell("fc6 dgrad", "gemm", 0.05, 0.1),
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
    rows = {line.rpartition("%")[0][:26].strip(): line.split()[-3:] for line in said[2:-1]}
    assert rows["convolutions"] == ["32.9%", "30.0%", "10.0%"]
    assert rows["conv2 by FFT"] == ["12.1%", "5.0%", "0.0%"]
    assert rows["gradient of the images"] == ["3.7%", "5.0%", "0.0%"]
    assert rows["fc, gradients of weights"] == ["3.5%", "10.0%", "20.0%"]
    assert rows["fc, the other products"] == ["11.1%", "5.0%", "10.0%"]
    assert rows["ReLU, bias, pooling"] == ["6.6%", "10.0%", "20.0%"]
    assert rows["layouts changed"] == ["11.1%", "5.0%", "20.0%"]
    assert rows["the rest"][1:] == ["10.0%", "10.0%"]
    assert "2.7 times in theirs" in said[-1] and f"2.0 times in {explained.a}" in said[-1]


@pytest.mark.parametrize("changed", [{"network": "fcn-r"}, {"phase": "forward"}])
def test_of_others_there_is_nothing(explained: Explanation, changed: dict[str, str]) -> None:
    assert authors.lines(replace(explained, **changed)) == []  # type: ignore[arg-type]


def test_its_variants_have_it_too(explained: Explanation) -> None:
    assert authors.lines(replace(explained, network="alexnet-s:tf"))
