"""The losses in NumPy: each gradient is the derivative of its value; PyTorch's functions of the same names agree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import macro.frameworks
from macro.frameworks import find
from macro.networks.base import LOSSES, chain
from macro.processes import job
from macro.worker import numpy_losses
from tests.conftest import load

BATCH, CLASSES, SMALL = 3, 4, 1e-6
FRAMEWORKS = Path(macro.frameworks.__file__).parent
LABELS = np.array([2, 0, 2])


@pytest.fixture
def outputs() -> Any:
    return np.random.default_rng(7).standard_normal((BATCH, CLASSES))


@pytest.fixture(params=LOSSES)
def loss(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_loss_of_a_network_is_there() -> None:
    assert set(numpy_losses.KINDS) == set(LOSSES)


@pytest.mark.parametrize("name", sorted(path.stem for path in FRAMEWORKS.glob("[a-z]*.py")))
def test_every_framework_has_every_loss(name: str, beside: None) -> None:
    assert set(load(FRAMEWORKS / f"{name}.py").LOSSES) == set(LOSSES)


def test_the_gradient_is_the_derivative(loss: str, outputs: Any) -> None:
    one = numpy_losses.KINDS[loss](LABELS, CLASSES)
    gradient = outputs.copy()
    one.gradient(gradient)
    for place in np.ndindex(BATCH, CLASSES):
        above, below = outputs.copy(), outputs.copy()
        above[place] += SMALL
        below[place] -= SMALL
        assert (one.value(above) - one.value(below)) / (2 * SMALL) == pytest.approx(gradient[place], rel=1e-5)


def test_large_outputs_have_a_loss(loss: str) -> None:
    far = 300 * np.array([[1, -1, 0, 1]] * BATCH, np.float32)
    one = numpy_losses.KINDS[loss](LABELS, CLASSES)
    assert np.isfinite(one.value(far))
    one.gradient(far)
    assert np.isfinite(far).all()


def test_pytorch_has_the_same(loss: str, outputs: Any, beside: None) -> None:
    torch = pytest.importorskip("torch", reason="no torch: pip install torch")
    import torch_layers

    plan = {"loss": loss, "layers": [{"out": (CLASSES,)}]}
    z = torch.tensor(outputs, requires_grad=True)
    wanted = torch.tensor(numpy_losses.wanted(plan, LABELS, np.int64))
    value = torch_layers.LOSSES[loss](torch.nn.functional)(z, wanted if loss == "softmax" else wanted.double())
    value.backward()
    own, gradient = numpy_losses.KINDS[loss](LABELS, CLASSES), outputs.copy()
    own.gradient(gradient)
    assert own.value(outputs) == pytest.approx(value.item(), rel=1e-12)
    np.testing.assert_allclose(gradient, z.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name", ["kernels-only", "pytorch"])
def test_a_step_goes_where_numpy_s_goes(name: str, loss: str, beside: None, own_state: Path, tmp_path: Path) -> None:
    if name == "pytorch":
        pytest.importorskip("torch", reason="no torch: pip install torch")
    net = replace(chain("x", "a test", BATCH, (6, 5, CLASSES), rate=0.5, momentum=0.9), loss=loss)
    files = job.write_arrays(net, BATCH, tmp_path)
    asked = {"network": net.plan(), "knobs": {}, "threads": 1, "batch": BATCH, **files}
    want, got = (load(find(x).path).build(asked) for x in ("numpy", name))
    for model in (want, got):
        model.step()
        model.step()
    assert got.loss() == pytest.approx(want.loss(), rel=1e-5)
    for word, array in want.parameters().items():
        np.testing.assert_allclose(got.parameters()[word], array, rtol=1e-5, atol=1e-6)
