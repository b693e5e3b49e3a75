"""Which explanations of an injection into a graph are right; and that what is injected is one of the known kinds."""

from __future__ import annotations

from typing import Any

import pytest

from macro.networks import find
from micro.command import soak_graphs
from micro.command.injected_graphs import EXPECTED, written

ONE = soak_graphs.Injection("jax", "alexnet-r", "operation again", "conv2", 1)


def explained(row: str, column: str, more: float, gap: float = 0.010, others: float = 0.0) -> dict[str, Any]:
    cells = [{"row": row, "column": column, "a": 0.1 + more, "b": 0.1}]
    cells.append({"row": "conv2 wgrad", "column": "OS memory", "a": others, "b": 0.0})
    return {"added": 3, "named": cells[:1], "cells": cells, "gap": gap, "resolution": 1e-4}


@pytest.mark.parametrize(
    ("told", "right"),
    [
        (explained("conv2 forward", "convolution", 0.0102), True),
        (explained("pool1 activation; conv2 forward + activation", "convolution", 0.010), True),
        (explained("conv2 forward", "convolution", 0.006, others=0.004), True),
        (explained("conv2 forward", "convolution", 0.006), False),
        (explained("conv2 forward", "gemm", 0.010), False),
        (explained("conv1 forward", "convolution", 0.010), False),
        ({"added": 3, "named": [], "cells": [], "gap": 0.01, "resolution": 1e-4}, False),
        ({**explained("conv2 forward", "convolution", 0.0102), "added": 0}, False),
    ],
)
def test_kind_layer_and_size_have_to_be_right(told: dict[str, Any], right: bool) -> None:
    assert soak_graphs.named_right(ONE, told) is right
    assert soak_graphs.said(ONE, told)


def test_each_is_of_a_known_kind_in_a_layer_that_there_is(tmp_path: Any) -> None:
    drawn = soak_graphs.injections()
    assert len(drawn) == 12
    for one in drawn:
        assert one.what in EXPECTED and one.layer in {node.name for node in find(one.network).nodes}
        path = written(tmp_path, one.framework, one.what, one.layer, one.many)
        compile(path.read_text("utf-8"), str(path), "exec")
        assert one.what not in soak_graphs.CANNOT.get(one.framework, {})
