"""Graphs at which frameworks could trip: NumPy, kernels-only and PyTorch give the same gradients of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macro.frameworks import find
from macro.networks.base import Network
from macro.networks.layer import Layer
from macro.networks.layers import Add, BatchNorm, Concat, Convolution, Dense, Flatten, LocalResponseNorm, Pool, Shortcut
from macro.processes import job
from macro.processes.job import Setting
from tests.conftest import load

IMAGE = (2, 7, 7)
GRAPHS: dict[str, tuple[Layer, ...]] = {
    "nothing to move in front": (Pool(name="pool"), Flatten(name="flat"), Dense(name="fc", outputs=3)),
    "a normalization first": (
        BatchNorm(name="norm", affine=False),
        Convolution(name="conv", filters=3),
        Flatten(name="flat"),
        Dense(name="fc", outputs=3),
    ),
    "a view of what is needed again last": (
        Convolution(name="conv", filters=4, activation="relu"),
        Pool(name="pool", window=0),
        Flatten(name="flat"),
    ),
    "an activation last": (
        Flatten(name="flat"),
        Dense(name="fc1", outputs=6, activation="relu"),
        Dense(name="fc2", outputs=3, activation="sigmoid"),
    ),
    "windows that would begin beyond": (
        Convolution(name="conv", filters=3, pad=1),
        Pool(name="pool", pads=(1, 1, 1, 1), rounding="ceil"),
        Flatten(name="flat"),
        Dense(name="fc", outputs=3),
    ),
    "twice the same": (
        Convolution(name="conv", filters=3),
        Add(name="add", after=("conv", "conv"), activation="relu"),
        Flatten(name="flat"),
        Dense(name="fc", outputs=3),
    ),
    "normalized first": (
        BatchNorm(name="first", activation="relu"),
        Convolution(name="conv", filters=3, bias=False),
        BatchNorm(name="norm", activation="relu"),
        Pool(name="pool", window=3, mode="average", pads=(1, 1, 1, 1)),
        BatchNorm(name="frozen", frozen=True, activation="sigmoid"),
        BatchNorm(name="plain", affine=False),
        Flatten(name="flat"),
        Dense(name="fc", outputs=3),
    ),
    "groups, sides, dilation": (
        Convolution(name="conv1", filters=4, pads=(1, 0, 2, 1), activation="relu"),
        Convolution(name="conv2", filters=4, groups=2, pad=1),
        Convolution(name="conv3", filters=3, dilation=2, pad=2, stride=2),
        Flatten(name="flat"),
        Dense(name="fc", outputs=3),
    ),
    "across channels and around": (
        Convolution(name="conv", filters=4, pad=1),
        LocalResponseNorm(name="lrn", size=3, alpha=0.5, beta=0.6, k=2.0),
        Convolution(name="next", filters=6, pad=1, stride=2),
        Shortcut(name="shortcut", after=("lrn",), channels=6),
        Add(name="add", after=("next", "shortcut"), activation="relu"),
        Flatten(name="flat"),
        Dense(name="fc", outputs=3),
    ),
    "two views joined": (
        Convolution(name="conv", filters=3, activation="relu"),
        Flatten(name="flat1"),
        Flatten(name="flat2", after=("conv",)),
        Concat(name="both", after=("flat1", "flat2")),
        Dense(name="fc", outputs=3),
    ),
}


def arrays(framework: str, network: Network, folder: Path, threads: int = 1) -> dict[str, Any]:
    """Gradients after a step, and what it kept."""
    row = find(framework)
    files = job.write_arrays(network, network.batch, folder)
    told = json.loads(job.write(row, network, network.batch, Setting(threads), files, folder).read_text("utf-8"))
    model = load(row.path).build(told)
    model.step()
    kept = {name: array.copy() for name, array in model.state().items()}
    return {**model.gradients(), **kept}


@pytest.mark.usefixtures("with_torch", "own_state")
@pytest.mark.parametrize("name", GRAPHS)
def test_all_give_the_same(name: str, tmp_path: Path) -> None:
    network = Network(name, "a test", 4, GRAPHS[name], rate=0.1, momentum=0.5, input=IMAGE)
    want = arrays("pytorch", network, tmp_path)
    for framework, threads in (("numpy", 1), ("kernels-only", 1), ("kernels-only", 2)):
        for array, ours in arrays(framework, network, tmp_path, threads).items():
            np.testing.assert_allclose(ours, want[array], rtol=2e-4, atol=2e-6, err_msg=f"{framework}: {array}")
