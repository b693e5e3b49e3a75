"""Which benchmark measures a pass over images by itself; each line is one that micro understands."""

from __future__ import annotations

from dataclasses import replace

import pytest

import micro
from macro.explaining.repeat import best, image_pass, repeat
from macro.explaining.rows import rows
from macro.frameworks import find
from macro.networks.base import Network
from macro.networks.layers import Add, BatchNorm, Convolution, Dense, Dropout, Flatten, LocalResponseNorm, Pool
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan
from macro.watching.watch import Side
from reports.explanation import Cell

NET = Network(
    "passes",
    "a test",
    4,
    (
        Convolution(name="conv", filters=8, pad=1),
        BatchNorm(name="norm", activation="relu"),
        Add(name="both", after=("norm", "conv")),
        Pool(name="pool", after=("both",), window=3),
        BatchNorm(name="frozen", frozen=True),
        LocalResponseNorm(name="lrn", k=2.0),
        Dropout(name="drop", share=0.25),
        Pool(name="odd", window=2, rounding="ceil"),
        Add(name="twice", after=("odd", "odd")),
        Flatten(name="flat"),
        Dense(name="fc", outputs=5),
    ),
    rate=0.1,
    input=(3, 15, 15),
)
WANTED = {
    ("norm forward", "normalization"): {"images": 4, "maps": 8, "size": 15},
    ("norm gradient", "normalization"): {"images": 4, "maps": 8, "size": 15, "phase": "step"},
    ("norm activation", "element-wise"): {"count": 4 * 8 * 15 * 15, "kind": "relu", "phase": "forward"},
    ("pool forward", "pooling"): {"images": 4, "channels": 8, "size": 15, "window": 3, "pool": "max"},
    ("frozen gradient", "normalization"): {"images": 4, "maps": 8, "size": 7, "mode": "frozen", "phase": "step"},
    ("lrn forward", "normalization"): {"images": 4, "maps": 8, "size": 7, "method": "lrn"},
    ("drop forward", "random numbers"): {"units": 4 * 8 * 7 * 7, "rate": 0.25},
}
PLAN = Plan(NET, 4, "step", 1.0, 1)


def again(row: str, column: str) -> str:
    cell = Cell(row, column, 2.0, 1.0, 0.5, 1.5, 1.0, 0.0, {}, {}, (row,))
    sides = [Side(Entry(find("numpy"), Setting()), [])] * 2
    return repeat(cell, PLAN, sides, rows(NET, 4)).command


@pytest.mark.parametrize(("cell", "options"), WANTED.items(), ids=lambda x: x[0] if type(x) is tuple else "")
def test_each_pass_has_its_benchmark(cell: tuple[str, str], options: dict[str, object]) -> None:
    words = " ".join(f"--{name} {value}" for name, value in options.items())
    assert again(*cell) == f"python -m micro.elementwise {words}"
    planned = micro.plan("elementwise", **options, variant="numpy")
    assert planned.contests
    node = next(x for x in NET.nodes if x.name == cell[0].split()[0])
    if "activation" not in cell[0]:
        assert image_pass(node, cell[0].split()[1], 4) == options


def test_what_micro_has_not_is_repeated_by_the_framework() -> None:
    for cell in (("odd forward", "pooling"), ("norm gradient sum", "element-wise"), ("norm update", "optimizer")):
        assert again(*cell).startswith("python -m macro run passes --frameworks numpy")
    odd = {node.name: node for node in replace(NET, input=(3, 15, 17)).nodes}
    assert image_pass(odd["norm"], "forward", 4) is None


def test_a_gradient_with_its_forward_pass_is_no_bound_of_it() -> None:
    from macro.explaining.repeat import Kernels

    assert best(Kernels("elementwise", dict(WANTED["norm gradient", "normalization"]))) is None
    assert best(Kernels("elementwise", dict(WANTED["drop forward", "random numbers"]))) is None
