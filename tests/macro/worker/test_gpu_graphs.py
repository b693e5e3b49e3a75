"""kernels-only on a GPU gives what NumPy gives, of each graph at which one could trip; here on the fake CuPy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import devices
from kernels.devices.cuda import Cuda
from kernels.libs import cuda
from macro.frameworks import find
from macro.networks import find as known
from macro.networks.base import Network
from macro.networks.layers import Dense, Dropout, Flatten
from macro.processes import job
from macro.processes.job import Setting
from tests.conftest import load
from tests.macro.worker.conftest import FOLDER
from tests.macro.worker.test_odd_graphs import GRAPHS, IMAGE, arrays
from tests.simulated import fake_gpu, launcher
from tests.simulated.fake_cupy import FakeCupy


@pytest.fixture
def gpu(beside: None, own_state: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    """As `cuda:0`. The worker's modules are this test's own: from its first model on their arrays are a GPU's."""
    for path in FOLDER.glob("*.py"):
        monkeypatch.delitem(sys.modules, path.stem, raising=False)
    if reason := launcher.missing():
        pytest.skip(reason)
    fake = FakeCupy()
    fake.pace = 1e-6
    fake_gpu.install(monkeypatch, fake, tmp_path)
    monkeypatch.setattr(cuda, "driver_missing", lambda: None)
    monkeypatch.setattr(cuda, "package", lambda *words: None)
    monkeypatch.setattr(devices, "open_device", lambda name: Cuda(0, fake) if name != "cpu" else cpu(name))
    cpu = devices.open_device
    yield fake


def built(network: Network, folder: Path, framework: str = "kernels-only") -> Any:
    row = find(framework)
    files = job.write_arrays(network, network.batch, folder)
    setting = Setting(1, device="cuda:0")
    return load(row.path).build(
        json.loads(job.write(row, network, network.batch, setting, files, folder).read_text("utf-8"))
    )


BRIEF = ("twice the same", "normalized first")
EVERY = [pytest.param(name, marks=[] if name in BRIEF else pytest.mark.slow) for name in GRAPHS]


@pytest.mark.parametrize("name", EVERY)
def test_a_gpu_gives_what_numpy_gives(gpu: FakeCupy, name: str, tmp_path: Path) -> None:
    network = Network(name, "a test", 4, GRAPHS[name], rate=0.1, momentum=0.5, input=IMAGE)
    want = arrays("numpy", network, tmp_path)
    model = built(network, tmp_path)
    model.step()
    kept = model.state()
    found = {**model.gradients(), **kept}
    assert {type(x) for x in (*found.values(), *model.parameters().values(), model.outputs())} == {np.ndarray}
    for array, ours in found.items():
        np.testing.assert_allclose(ours, want[array], rtol=2e-4, atol=2e-6, err_msg=array)
    assert np.isfinite(model.loss())


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["nesterov", "adagrad", "rmsprop", "adam"])
def test_weights_move_there_as_numpy_moves_them(gpu: FakeCupy, optimizer: str, tmp_path: Path) -> None:
    told: dict[str, Any] = {"rate": 0.01, "optimizer": optimizer, "epsilon": 0.0 if optimizer == "nesterov" else 1e-4}
    told |= {"momentum": 0.9} if optimizer in ("nesterov", "adam") else {}
    told |= {"rho": 0.9} if optimizer in ("rmsprop", "adam") else {}
    network = Network("moved", "a test", 4, GRAPHS["an activation last"], input=IMAGE, **told)

    def moved(framework: str) -> dict[str, Any]:
        model = built(network, tmp_path, framework)
        for _ in range(3):
            model.step()
        return dict(model.parameters())

    want = moved("numpy")  # first: from then on the layers of this process are a GPU's
    for name, ours in moved("kernels-only").items():
        np.testing.assert_allclose(ours, want[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_its_kernels_are_those_of_a_gpu_and_its_clock_is(gpu: FakeCupy, tmp_path: Path) -> None:
    import suite_products  # type: ignore[import-not-found]

    network = Network("told", "a test", 4, GRAPHS["normalized first"], rate=0.1, input=IMAGE)
    model = built(network, tmp_path)
    model.step()
    rows = {(name.partition("/")[0], row) for name, row in suite_products.USED.items()}
    assert {op for op, _ in rows} == {"gemm", "conv", "activation", "optimizer"}
    assert all(row in suite_products.ON_A_GPU[op] for op, row in rows)
    model.clock.begin()
    for _ in range(2):
        model.step()
        model.clock.mark()
    took = model.clock.end()
    assert len(took) == 2 and all(isinstance(x, int) and x > 0 for x in took)
    arrays = sum(x.nbytes for x in (*model.parameters().values(), *model.gradients().values()))
    assert model.clock.peak() > arrays


@pytest.mark.parametrize("loss", ["binary", "squared"])
def test_losses_there(gpu: FakeCupy, loss: str, tmp_path: Path) -> None:
    network = Network(loss, "a test", 4, GRAPHS["an activation last"], rate=0.1, input=IMAGE, loss=loss)
    reference = built(network, tmp_path, "numpy")
    want = {"loss": reference.loss(), **reference.gradients()}
    model = built(network, tmp_path)
    for name, ours in {"loss": model.loss(), **model.gradients()}.items():
        np.testing.assert_allclose(ours, want[name], rtol=1e-4, atol=1e-6, err_msg=name)


DROPS = (Flatten(name="flat"), Dropout(name="drop", share=0.5), Dense(name="fc", outputs=3))


def test_a_mask_is_drawn_for_each_element(gpu: FakeCupy, tmp_path: Path) -> None:
    network = Network("drops", "a test", 32, DROPS, rate=0.1, input=IMAGE)
    model = built(network, tmp_path)
    model.forward()
    mask = next(layer.mask for layer in model.layers if layer.name == "drop").get()
    assert set(np.unique(mask)) == {0.0, 2.0} and 0.4 < (mask > 0).mean() < 0.6


def test_a_given_mask_is_taken_to_it(gpu: FakeCupy, tmp_path: Path) -> None:
    """As where equal work is proven."""
    network = Network("drops", "a test", 4, DROPS, rate=0.1, input=IMAGE)

    def gradients(framework: str) -> dict[str, Any]:
        row, files = find(framework), job.write_arrays(network, network.batch, tmp_path)
        told = json.loads(
            job.write(row, network, network.batch, Setting(1, device="cuda:0"), files, tmp_path).read_text("utf-8")
        )
        for layer in told["network"]["layers"]:
            if layer["kind"] == "dropout":
                drawn = np.random.default_rng(5).random((network.batch, *layer["out"]))
                layer["mask"] = (drawn < 0.5).astype(np.float32) * 2
        return dict(load(row.path).build(told).gradients())

    want = gradients("numpy")
    for name, ours in gradients("kernels-only").items():
        np.testing.assert_allclose(ours, want[name], rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", ["alexnet-r", "resnet-56"])
@pytest.mark.slow
def test_networks_of_the_texts_there(gpu: FakeCupy, name: str, tmp_path: Path) -> None:
    network = replace(known(name), batch=2)
    want = arrays("numpy", network, tmp_path)
    model = built(network, tmp_path)
    model.step()
    for array, ours in model.gradients().items():
        np.testing.assert_allclose(ours, want[array], rtol=1e-2, atol=1e-4, err_msg=array)
