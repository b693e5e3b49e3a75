"""Dropout: given masks where answers are compared, own ones in a timed step."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from kernels.errors import Unavailable
from macro.frameworks import find, home, interpreter, names, remedy
from macro.networks.base import Network, from_data
from macro.networks.layers import Convolution, Dense, Dropout, Flatten
from macro.processes import job
from macro.processes.job import Setting
from macro.processes.process import Process
from tests.conftest import load

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
def adapters(beside: None) -> dict[str, ModuleType]:
    return {name: load(find(name).path) for name in ("numpy", "pytorch")}


@pytest.fixture
def asked(tmp_path: Path, beside: None) -> dict[str, Any]:
    files = job.write_arrays(NET, BATCH, tmp_path)
    return {"network": NET.plan(), "knobs": {}, "threads": 1, "batch": BATCH, **files}


@pytest.fixture
def masked(asked: dict[str, Any]) -> dict[str, Any]:
    import loop  # as where it runs by path

    loop.give_masks(asked)
    return asked


def test_masks_drop_their_share(masked: dict[str, Any]) -> None:
    masks = {told["name"]: told["mask"] for told in masked["network"]["layers"] if "mask" in told}
    assert {name: mask.shape for name, mask in masks.items()} == {"drop1": (BATCH, 4, 6, 5), "drop2": (BATCH, 120)}
    for mask, share in zip(masks.values(), (SHARE, 0.5), strict=True):
        assert set(np.unique(mask)) == {np.float32(0), np.float32(1 / (1 - share))}
        assert np.mean(mask == 0) == pytest.approx(share, abs=0.05)


def test_with_given_masks_pytorch_and_numpy_agree(masked: dict[str, Any], adapters: dict[str, ModuleType]) -> None:
    pytest.importorskip("torch", reason="no torch: pip install torch")
    ours, theirs = (adapter.build(masked) for adapter in adapters.values())
    np.testing.assert_allclose(theirs.outputs(), ours.outputs(), rtol=1e-4, atol=1e-5)
    for _ in range(2):
        ours.step()
        theirs.step()
    assert theirs.loss() == pytest.approx(ours.loss(), rel=1e-5)
    for name, array in ours.parameters().items():
        np.testing.assert_allclose(theirs.parameters()[name], array, rtol=1e-4, atol=1e-5)


def test_a_step_of_its_own_draws_another_mask_each_time(asked: dict[str, Any], adapters: dict[str, ModuleType]) -> None:
    model = adapters["numpy"].build(asked)
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
    file = job.write(framework, net, BATCH, Setting(), job.write_arrays(net, BATCH, tmp_path), tmp_path)
    try:
        with Process(framework, file, Setting(), tmp_path / "log") as process:
            process.expect("hello")
            process.expect("built")
            path = str(tmp_path / "answer.npz")
            process.ask(60.0, "equal", do="equal", path=path, steps=[1])
    except Unavailable as error:
        pytest.skip(str(error))
    with np.load(path) as arrays, np.load(file.with_name("weights.npz")) as weights:
        outputs, biases = arrays["outputs"], weights["fc.bias"]
    assert outputs.shape == (BATCH, CLASSES) and biases.all()
    assert np.mean(outputs == 0) == pytest.approx(SHARE, abs=0.02)


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_a_share_that_is_none_is_refused(share: float) -> None:
    told = NET.data()
    told["layers"][1]["share"] = share
    with pytest.raises(ValueError, match=r"drop1: share .*: 0 or more, and less than 1"):
        from_data(told)
