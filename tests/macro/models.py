"""Networks of a few layers of every kind, and the models that frameworks' adapters build of them in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from macro.frameworks import Framework, find
from macro.networks.base import Network
from macro.networks.layers import (
    Activation,
    Add,
    BatchNorm,
    Concat,
    Convolution,
    Dense,
    Flatten,
    LocalResponseNorm,
    Pool,
    Shortcut,
)
from macro.networks.layers import Dropout as Dropout
from macro.processes import job
from macro.processes.job import Setting
from macro.processes.process import Process
from tests.conftest import load

ALL_KINDS = Network(
    "all kinds",
    "a test",
    4,
    (
        Convolution(name="conv1", filters=8, kernel=5, stride=2, pads=(2, 1, 1, 2)),
        BatchNorm(name="norm", activation="relu"),
        Pool(name="pool1", window=3, rounding="ceil"),
        Convolution(name="conv2", filters=8, pad=1, groups=2, activation="sigmoid"),
        LocalResponseNorm(name="lrn", size=3, alpha=0.5, beta=0.6, k=2.0),
        Activation(name="act", activation="relu"),
        Add(name="add", after=("act", "lrn")),
        Add(name="sum", after=("add", "pool1"), activation="relu"),
        Shortcut(name="shortcut", after=("sum",), channels=12),
        Convolution(name="conv3", after=("sum",), filters=12, stride=2, pad=2, dilation=2, bias=False),
        Concat(name="concat", after=("shortcut", "conv3")),
        Pool(name="pool2", mode="average", stride=1, rounding="ceil"),
        Pool(name="pool3", mode="average", window=0),
        Flatten(name="flat", activation="relu"),
        Activation(name="curve", activation="sigmoid"),
        Dense(name="fc", outputs=5),
    ),
    rate=0.1,
    momentum=0.9,
    input=(3, 20, 18),
)


def classified(*layers: Any, outputs: int = 3) -> tuple[Any, ...]:
    """Return these layers with a dense one behind them."""
    return (*layers, Flatten(name="flat"), Dense(name="fc", outputs=outputs))


def written(framework: Framework | str, network: Network, folder: Path, setting: Setting = Setting()) -> Path:  # noqa: B008
    """Write a framework's job, weights and data; return the job's file."""
    row = find(framework) if isinstance(framework, str) else framework
    return job.write(row, network, network.batch, setting, folder)


def asked(framework: str, network: Network, folder: Path, **setting: Any) -> dict[str, Any]:
    """Return a job as an adapter is given it."""
    told: dict[str, Any] = json.loads(written(framework, network, folder, Setting(**setting)).read_text("utf-8"))
    return told


def build(framework: str, network: Network, folder: Path, **setting: Any) -> Any:
    """Return the model that a framework's adapter builds in this process."""
    return load(find(framework).path).build(asked(framework, network, folder, **setting))


def assert_same(got: Mapping[str, Any], want: Mapping[str, Any], rtol: float = 1e-4, atol: float = 1e-5) -> None:
    """Compare all arrays of `want` by name."""
    for name, array in want.items():
        np.testing.assert_allclose(got[name], array, rtol=rtol, atol=atol, err_msg=name)


@contextmanager
def started(
    framework: Framework | str,
    network: Network,
    folder: Path,
    setting: Setting = Setting(),  # noqa: B008
) -> Iterator[Process]:
    """Start a framework's process; it has read its job, and is to say hello."""
    row = find(framework) if isinstance(framework, str) else framework
    with Process(row, written(row, network, folder, setting), setting, folder / "log") as process:
        yield process


def answer(framework: str, network: Network, folder: Path, steps: int = 1) -> dict[str, Any]:
    """Return the arrays with which a framework's process answers whether its work is equal. Raises Unavailable."""
    path = str(folder / "answer.npz")
    with started(framework, network, folder) as process:
        process.expect("hello")
        process.expect("built")
        process.ask(60.0, "equal", do="equal", path=path, steps=[steps])
    with np.load(path) as arrays:
        return dict(arrays)
