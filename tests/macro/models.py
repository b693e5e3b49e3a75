"""Networks of a few layers of every kind, and the models that frameworks' adapters build of them in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from macro.frameworks import Framework, find
from macro.networks.base import Network, from_data
from macro.networks.layers import Dense, Flatten
from macro.processes import job
from macro.processes.job import Setting
from macro.processes.process import Process
from tests.conftest import load

NETWORKS = {
    name: from_data(data)
    for name, data in json.loads(Path(__file__).with_name("networks.json").read_text("utf-8")).items()
}
ALL_KINDS = NETWORKS["all kinds"]


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
