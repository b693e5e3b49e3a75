"""Each kind of layer, and graphs at which frameworks could trip: NumPy, kernels-only and PyTorch give the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.errors import Unavailable
from macro.frameworks import find, home, interpreter, names, remedy
from macro.networks.base import Network, from_data
from macro.networks.layer import Layer
from macro.networks.layers import (
    Add,
    BatchNorm,
    Concat,
    Convolution,
    Dense,
    Dropout,
    Flatten,
    LocalResponseNorm,
    Pool,
    Shortcut,
)
from tests.conftest import load
from tests.macro.models import ALL_KINDS, answer, asked, assert_same, build, classified

IMAGE = (2, 7, 7)
GRAPHS: dict[str, tuple[Layer, ...]] = {
    "nothing to move in front": classified(Pool(name="pool")),
    "a normalization first": classified(BatchNorm(name="norm", affine=False), Convolution(name="conv", filters=3)),
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
    "windows that would begin beyond": classified(
        Convolution(name="conv", filters=3, pad=1), Pool(name="pool", pads=(1, 1, 1, 1), rounding="ceil")
    ),
    "twice the same": classified(
        Convolution(name="conv", filters=3), Add(name="add", after=("conv", "conv"), activation="relu")
    ),
    "normalized first": classified(
        BatchNorm(name="first", activation="relu"),
        Convolution(name="conv", filters=3, bias=False),
        BatchNorm(name="norm", activation="relu"),
        Pool(name="pool", window=3, mode="average", pads=(1, 1, 1, 1)),
        BatchNorm(name="frozen", frozen=True, activation="sigmoid"),
        BatchNorm(name="plain", affine=False),
    ),
    "groups, sides, dilation": classified(
        Convolution(name="conv1", filters=4, pads=(1, 0, 2, 1), activation="relu"),
        Convolution(name="conv2", filters=4, groups=2, pad=1),
        Convolution(name="conv3", filters=3, dilation=2, pad=2, stride=2),
    ),
    "across channels and around": classified(
        Convolution(name="conv", filters=4, pad=1),
        LocalResponseNorm(name="lrn", size=3, alpha=0.5, beta=0.6, k=2.0),
        Convolution(name="next", filters=6, pad=1, stride=2),
        Shortcut(name="shortcut", after=("lrn",), channels=6),
        Add(name="add", after=("next", "shortcut"), activation="relu"),
    ),
    "two views joined": (
        Convolution(name="conv", filters=3, activation="relu"),
        Flatten(name="flat1"),
        Flatten(name="flat2", after=("conv",)),
        Concat(name="both", after=("flat1", "flat2")),
        Dense(name="fc", outputs=3),
    ),
}


def graph(name: str, **more: Any) -> Network:
    """Return a network of one of these graphs."""
    return replace(Network(name, "a test", 4, GRAPHS[name], rate=0.1, momentum=0.5, input=IMAGE), **more)


def arrays(framework: str, network: Network, folder: Path, threads: int = 1) -> dict[str, Any]:
    """Return gradients after a step, and what the model kept."""
    model = build(framework, network, folder, threads=threads)
    model.step()
    kept = {name: array.copy() for name, array in model.state().items()}
    return {**model.gradients(), **kept}


@pytest.mark.usefixtures("with_torch", "own_state")
@pytest.mark.parametrize("name", GRAPHS)
def test_all_give_the_same(name: str, tmp_path: Path) -> None:
    want = arrays("pytorch", graph(name), tmp_path)
    for framework, threads in (("numpy", 1), ("kernels-only", 1), ("kernels-only", 2)):
        assert_same(want, arrays(framework, graph(name), tmp_path, threads), rtol=2e-4, atol=2e-6)


@pytest.mark.usefixtures("with_torch")
@pytest.mark.parametrize(
    ("size", "window", "stride", "pads", "rounding"),
    [(4, 3, 3, (2, 2, 2, 2), "ceil"), (7, 3, 2, (0, 0, 2, 1), "ceil"), (7, 3, 2, (2, 2, 2, 2), "floor")],
)
def test_a_pooling_of_any_padding_is_that_of_numpy(
    size: int, window: int, stride: int, pads: tuple[int, ...], rounding: str, tmp_path: Path
) -> None:
    pool = Pool(name="pool", window=window, stride=stride, pads=pads, rounding=rounding)
    layers = (pool, Flatten(name="flat"), Dense(name="type", outputs=3))  # which is the name of a method there
    net = Network("x", "a test", 2, layers, rate=0.1, input=(2, size, size))
    ours, theirs = (build(name, net, tmp_path) for name in ("numpy", "pytorch"))
    assert theirs.loss() == pytest.approx(ours.loss(), rel=1e-6)
    assert_same(theirs.gradients(), ours.gradients(), atol=1e-6)


def of_torch(told: dict[str, Any]) -> tuple[float, dict[str, Any], dict[str, Any]]:
    """Loss, gradients and the statistics of a batch."""
    torch = pytest.importorskip("torch", reason="no torch: pip install torch")
    f = torch.nn.functional
    with np.load(told["weights"]) as weights, np.load(told["data"]) as data:
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


@pytest.mark.usefixtures("beside")
def test_each_kind_gives_what_pytorch_gives(tmp_path: Path) -> None:
    loss, gradients, state = of_torch(asked("numpy", ALL_KINDS, tmp_path))
    model = build("numpy", ALL_KINDS, tmp_path)
    assert model.loss() == pytest.approx(loss, rel=1e-6)
    ours = model.gradients()
    assert float(np.abs(ours.pop("conv1.bias")).max()) < 1e-6  # a normalization takes it away
    assert max(apart(array, gradients[name]) for name, array in ours.items()) < 1e-6
    model.step()
    assert max(apart(array, state[name]) for name, array in model.state().items()) < 1e-6


@pytest.mark.usefixtures("beside")
@pytest.mark.parametrize("order", ["reversed", "shuffled"])
def test_other_orders_of_its_sums_are_other_roundings(order: str, tmp_path: Path) -> None:
    plain, other = (build("numpy", ALL_KINDS, tmp_path, knobs=knobs).gradients() for knobs in ({}, {"order": order}))
    spread = {name: apart(other[name], plain[name]) for name in plain if name != "conv1.bias"}
    assert min(spread.values()) > 0 and max(spread.values()) < 1e-5


@pytest.mark.usefixtures("beside")
def test_the_same_step_twice_is_the_same(tmp_path: Path) -> None:
    """No array of one step is left over in the next."""
    model = build("numpy", ALL_KINDS, tmp_path)
    first, second = model.gradients(), model.gradients()
    assert all(np.array_equal(first[name], second[name]) for name in first)


SHARE, BATCH, CLASSES = 0.25, 64, 200
NET = Network(
    "dropping",
    "a test",
    BATCH,
    (
        Convolution(name="conv", filters=4, pad=1),
        Dropout(name="drop1", share=SHARE, activation="relu"),
        Flatten(name="flat"),
        Dropout(name="drop2"),
        Dense(name="fc", outputs=5),
    ),
    rate=0.1,
    input=(3, 6, 5),
)


@pytest.fixture
def masked(tmp_path: Path, beside: None) -> dict[str, Any]:
    import loop  # as where it runs by path

    told = asked("numpy", NET, tmp_path)
    loop.give_masks(told)
    return told


def test_masks_drop_their_share(masked: dict[str, Any]) -> None:
    masks = {told["name"]: told["mask"] for told in masked["network"]["layers"] if "mask" in told}
    assert {name: mask.shape for name, mask in masks.items()} == {"drop1": (BATCH, 4, 6, 5), "drop2": (BATCH, 120)}
    for mask, share in zip(masks.values(), (SHARE, 0.5), strict=True):
        assert set(np.unique(mask)) == {np.float32(0), np.float32(1 / (1 - share))}
        assert np.mean(mask == 0) == pytest.approx(share, abs=0.05)


def test_with_given_masks_pytorch_and_numpy_agree(masked: dict[str, Any]) -> None:
    pytest.importorskip("torch", reason="no torch: pip install torch")
    ours, theirs = (load(find(name).path).build(masked) for name in ("numpy", "pytorch"))
    np.testing.assert_allclose(theirs.outputs(), ours.outputs(), rtol=1e-4, atol=1e-5)
    for _ in range(2):
        ours.step()
        theirs.step()
    assert theirs.loss() == pytest.approx(ours.loss(), rel=1e-5)
    assert_same(theirs.parameters(), ours.parameters())


def test_a_step_of_its_own_draws_another_mask_each_time(beside: None, tmp_path: Path) -> None:
    model = build("numpy", NET, tmp_path)
    layer = next(x for x in model.layers if x.name == "drop1")
    masks = []
    for _ in range(2):
        model.step()
        masks.append(layer.mask.copy())
        assert set(np.unique(masks[-1])) == {np.float32(0), np.float32(1 / (1 - SHARE))}
        assert np.mean(masks[-1] == 0) == pytest.approx(SHARE, abs=0.05)
    assert (masks[0] != masks[1]).any()


ENVIRONMENTS = home()
DRAWING = [name for name in names() if name != "cntk"]  # which drops in training alone, not in a forward pass by itself


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWING)
def test_every_framework_drops_the_share_that_it_is_told(name: str, own_state: Path, tmp_path: Path) -> None:
    """By the outputs of a forward pass as it is timed."""
    if ENVIRONMENTS.is_dir():
        (own_state / "environments").symlink_to(ENVIRONMENTS)
    layers = (Dense(name="fc", outputs=CLASSES), Dropout(name="drop", share=SHARE))
    net = Network("last", "a test", BATCH, layers, rate=0.1, input=(3,))
    framework = find(name)
    if interpreter(framework) is None:
        pytest.skip(f"no environment for {name}: {remedy(framework)}")
    try:
        outputs = answer(name, net, tmp_path)["outputs"]
    except Unavailable as error:
        pytest.skip(str(error))
    assert outputs.shape == (BATCH, CLASSES)
    assert np.mean(outputs == 0) == pytest.approx(SHARE, abs=0.02)


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    told = NET.data()
    told["layers"][1]["share"] = share
    with pytest.raises(ValueError, match=r"drop1: share .*: must be 0 or more and below 1"):
        from_data(told)
