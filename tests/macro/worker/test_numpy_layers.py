"""All kinds of layers in NumPy, in one network, against PyTorch in double precision."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from macro.frameworks import find
from macro.processes import job
from tests.conftest import load
from tests.macro.worker.all_kinds import NET


@pytest.fixture
def adapter(beside: None) -> ModuleType:
    return load(find("numpy").path)


@pytest.fixture
def asked(tmp_path: Path) -> dict[str, Any]:
    files = job.write_arrays(NET, NET.batch, tmp_path)
    return {"network": NET.plan(), "knobs": {}, "threads": 1, **files}


def of_torch(asked: dict[str, Any]) -> tuple[float, dict[str, Any], dict[str, Any]]:
    """Loss, gradients and the statistics of a batch."""
    torch = pytest.importorskip("torch", reason="no torch: pip install torch")
    f = torch.nn.functional
    with np.load(asked["weights"]) as weights, np.load(asked["data"]) as data:
        p = {name: torch.tensor(weights[name], dtype=torch.float64, requires_grad=True) for name in weights.files}
        x, labels = torch.tensor(data["x"], dtype=torch.float64), torch.tensor(data["labels"])
    z = f.conv2d(f.pad(x, (1, 2, 2, 1)), p["conv1.weight"], p["conv1.bias"], stride=2)
    state = {"norm.mean": torch.zeros(8, dtype=torch.float64), "norm.variance": torch.ones(8, dtype=torch.float64)}
    z = torch.relu(f.batch_norm(z, *state.values(), p["norm.scale"], p["norm.shift"], True))
    pooled = f.max_pool2d(z, 3, 2, ceil_mode=True)
    z = torch.sigmoid(f.conv2d(pooled, p["conv2.weight"], p["conv2.bias"], padding=1, groups=2))
    z = f.local_response_norm(z, 3, alpha=0.5, beta=0.6, k=2.0)
    joined = torch.relu(torch.relu(z) + z + pooled)
    short = f.pad(joined[:, :, ::2, ::2], (0, 0, 0, 0, 0, 4))
    z = torch.cat([short, f.conv2d(joined, p["conv3.weight"], stride=2, padding=2, dilation=2)], 1)
    z = torch.sigmoid(torch.relu(f.avg_pool2d(z, 2, 1, ceil_mode=True).mean((2, 3))))
    loss = f.cross_entropy(z @ p["fc.weight"] + p["fc.bias"], labels)
    loss.backward()
    gradients = {name: x.grad.numpy() for name, x in p.items()}
    return loss.item(), gradients, {name: x.numpy() for name, x in state.items()}


def apart(a: Any, b: Any) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def test_each_kind_gives_what_pytorch_gives(adapter: ModuleType, asked: dict[str, Any]) -> None:
    loss, gradients, state = of_torch(asked)
    model = adapter.build(asked)
    assert model.loss() == pytest.approx(loss, rel=1e-6)
    ours = model.gradients()
    assert float(np.abs(ours.pop("conv1.bias")).max()) < 1e-6  # a normalization takes it away
    assert max(apart(array, gradients[name]) for name, array in ours.items()) < 1e-6
    model.step()
    assert max(apart(array, state[name]) for name, array in model.state().items()) < 1e-6


@pytest.mark.parametrize("order", ["reversed", "shuffled"])
def test_other_orders_of_its_sums_are_other_roundings(order: str, adapter: ModuleType, asked: dict[str, Any]) -> None:
    plain, other = (adapter.build({**asked, "knobs": knobs}).gradients() for knobs in ({}, {"order": order}))
    spread = {name: apart(other[name], plain[name]) for name in plain if name != "conv1.bias"}
    assert min(spread.values()) > 0 and max(spread.values()) < 1e-5


def test_the_same_step_twice_is_the_same(adapter: ModuleType, asked: dict[str, Any]) -> None:
    """No array of one step is left over in the next."""
    model = adapter.build(asked)
    first, second = model.gradients(), model.gradients()
    assert all(np.array_equal(first[name], second[name]) for name in first)
