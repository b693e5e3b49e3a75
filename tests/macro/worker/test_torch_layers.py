"""Layers of PyTorch that its own modules have otherwise: paddings that differ by side or are large, and their names."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from macro.frameworks import find
from macro.networks.base import Network
from macro.networks.layers import Dense, Flatten, Pool
from macro.processes import job
from tests.conftest import load

pytest.importorskip("torch")


@pytest.fixture
def adapters(beside: None) -> dict[str, ModuleType]:
    return {name: load(find(name).path) for name in ("numpy", "pytorch")}


@pytest.mark.parametrize(
    ("size", "window", "stride", "pads", "rounding"),
    [(4, 3, 3, (2, 2, 2, 2), "ceil"), (7, 3, 2, (0, 0, 2, 1), "ceil"), (7, 3, 2, (2, 2, 2, 2), "floor")],
)
def test_a_pooling_of_any_padding_is_that_of_numpy(
    size: int,
    window: int,
    stride: int,
    pads: tuple[int, ...],
    rounding: str,
    adapters: dict[str, ModuleType],
    tmp_path: Path,
) -> None:
    pool = Pool(name="pool", window=window, stride=stride, pads=pads, rounding=rounding)
    layers = (pool, Flatten(name="flat"), Dense(name="type", outputs=3))  # which is the name of a method there
    net = Network("x", "a test", 2, layers, rate=0.1, input=(2, size, size))
    asked = {"network": net.plan(), "knobs": {}, "threads": 1, "batch": 2, **job.write_arrays(net, 2, tmp_path)}
    ours, theirs = (adapter.build(asked) for adapter in adapters.values())
    assert theirs.loss() == pytest.approx(ours.loss(), rel=1e-6)
    for name, array in ours.gradients().items():
        np.testing.assert_allclose(theirs.gradients()[name], array, rtol=1e-4, atol=1e-6)
