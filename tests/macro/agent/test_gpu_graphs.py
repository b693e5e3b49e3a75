"""kernels-only on a GPU gives what NumPy gives, on the fake CuPy; and what JAX's profiler writes of a GPU, by hand."""

from __future__ import annotations

import gzip
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
from macro.running.on_device import NAME
from macro.traces import chrome
from tests.conftest import load
from tests.macro.agent.conftest import FOLDER
from tests.macro.agent.test_layers import GRAPHS, IMAGE, arrays, graph
from tests.macro.agent.test_spans_xla import message
from tests.macro.models import asked, assert_same, build
from tests.simulated import fake_gpu, launcher
from tests.simulated.fake_cupy import FakeCupy

pytestmark = pytest.mark.usefixtures("beside")


@pytest.fixture
def gpu(beside: None, own_state: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    """As `cuda:0`. The worker's modules are this test's own: from its first model on their arrays are a GPU's."""
    for path in FOLDER.rglob("*.py"):
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
    return build(framework, network, folder, device="cuda:0")


BRIEF = ("twice the same", "normalized first")
EVERY = [pytest.param(name, marks=[] if name in BRIEF else pytest.mark.slow) for name in GRAPHS]


@pytest.mark.parametrize("name", EVERY)
def test_a_gpu_gives_what_numpy_gives(gpu: FakeCupy, name: str, tmp_path: Path) -> None:
    network = graph(name)
    want = arrays("numpy", network, tmp_path)
    model = built(network, tmp_path)
    model.step()
    kept = model.state()
    found = {**model.gradients(), **kept}
    assert {type(x) for x in (*found.values(), *model.parameters().values(), model.outputs())} == {np.ndarray}
    assert_same(want, found, rtol=2e-4, atol=2e-6)
    assert np.isfinite(model.loss())


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", ["nesterov", "adagrad", "rmsprop", "adam"])
def test_weights_move_there_as_numpy_moves_them(gpu: FakeCupy, optimizer: str, tmp_path: Path) -> None:
    told: dict[str, Any] = {"rate": 0.01, "optimizer": optimizer, "epsilon": 0.0 if optimizer == "nesterov" else 1e-4}
    told |= {"momentum": 0.9} if optimizer in ("nesterov", "adam") else {}
    told |= {"rho": 0.9} if optimizer in ("rmsprop", "adam") else {}
    network = graph("an activation last", **{"momentum": 0.0, **told})

    def moved(framework: str) -> dict[str, Any]:
        model = built(network, tmp_path, framework)
        for _ in range(3):
            model.step()
        return dict(model.parameters())

    want = moved("numpy")  # first: from then on the layers of this process are a GPU's
    assert_same(moved("kernels-only"), want, atol=1e-6)


def test_its_kernels_are_those_of_a_gpu_and_its_clock_is(gpu: FakeCupy, tmp_path: Path) -> None:
    import suite_products  # type: ignore[import-not-found]

    model = built(graph("normalized first"), tmp_path)
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
    network = graph("an activation last", loss=loss)
    reference = built(network, tmp_path, "numpy")
    want = {"loss": reference.loss(), **reference.gradients()}
    model = built(network, tmp_path)
    assert_same({"loss": model.loss(), **model.gradients()}, want, atol=1e-6)


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
        told = asked(framework, network, tmp_path, device="cuda:0")
        for layer in told["network"]["layers"]:
            if layer["kind"] == "dropout":
                drawn = np.random.default_rng(5).random((network.batch, *layer["out"]))
                layer["mask"] = (drawn < 0.5).astype(np.float32) * 2
        return dict(load(find(framework).path).build(told).gradients())

    want = gradients("numpy")
    assert_same(gradients("kernels-only"), want, atol=1e-6)


@pytest.mark.parametrize("name", ["alexnet-r", "resnet-56"])
@pytest.mark.slow
def test_networks_of_the_texts_there(gpu: FakeCupy, name: str, tmp_path: Path) -> None:
    network = replace(known(name), batch=2)
    want = arrays("numpy", network, tmp_path)
    model = built(network, tmp_path)
    model.step()
    assert_same(want, model.gradients(), rtol=1e-2, atol=1e-4)


EPOCH = 1_764_000_000_000_000_000  # nanoseconds of today: a double has every 256th
KINDS = ["correlation_id", "memcpy_details", "hlo_op", "kernel_details", "Memset_details"]


def event(number: int, start: int, took: int, *stats: bytes) -> bytes:
    """`start`, `took`: nanoseconds."""
    return message((1, number), (2, 1000 * start), (3, 1000 * took), *((4, one) for one in stats))


def line(number: int, title: str, *events: bytes) -> bytes:
    return message((1, number), (2, title), (3, EPOCH), *((4, one) for one in events))


def plane(title: str, names: list[str], *lines: bytes) -> bytes:
    entries = [(4, message((1, i), (2, message((1, i), (2, name))))) for i, name in enumerate(names)]
    entries += [(5, message((1, i), (2, message((1, i), (2, name))))) for i, name in enumerate(KINDS)]
    return message((2, title), *((3, one) for one in lines), *entries)


def correlation(number: int) -> bytes:
    return message((1, 0), (3, number))


def detail(number: int, text: str = "dest:0") -> bytes:
    return message((1, number), (5, text))


def space() -> bytes:
    """A kernel of 1,003 ns that waits 17 for its launch, a copy from the host, a clear, a sum of the profiler's."""
    host = plane(
        "/host:CPU",
        [NAME, "sgemm", "another kernel", "MemcpyH2D"],
        line(
            1,
            "python",
            event(0, 0, 10_000),
            event(1, 100, 50, correlation(5)),
            event(2, 160, 5, correlation(6)),
            event(3, 170, 5, correlation(7)),
        ),
    )
    gpu = plane(
        "/device:GPU:0",
        ["sgemm", "MemcpyH2D", "Memset", "jit_step", "CudaGraphExec:3"],
        line(
            14,
            "CUPTI overhead",
            event(0, 167, 1003, correlation(5), detail(3, "regs:32")),
            event(2, 2000, 40, detail(4)),
            event(4, 150, 1100, correlation(5)),
        ),
        line(15, "Stream #15(MemcpyH2D)", event(1, 500, 200, detail(1, "kind_src:pinned size:4096 dest:0"))),
        line(99, "XLA Modules", event(3, 0, 9000)),
    )
    other = plane("/device:GPU:1", [])  # XLA has a plane for each, with work or without
    return message((1, host), (1, gpu), (1, other))


def test_a_gpu_s_streams_are_read_as_pytorch_s_profiler_has_them(tmp_path: Path) -> None:
    import jax_trace  # type: ignore[import-not-found]
    import xplane  # type: ignore[import-not-found]

    told = jax_trace.trace(list(xplane.planes(space())), "a card")
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(told).encode()))
    read = chrome.read(path, NAME)
    ((start, end),) = read.steps
    assert end - start == 10_000
    (device,) = read.devices
    assert device.name == "a card"
    kernel, copy, clear = sorted(device.work, key=lambda one: one.start)
    assert (kernel.name, kernel.kind, kernel.stream, kernel.end - kernel.start) == ("sgemm", "kernel", 14, 1003)
    assert kernel.launched is not None and kernel.start - kernel.launched == 17
    assert (copy.name, copy.kind, copy.nbytes, copy.linked, copy.stream) == ("Memcpy HtoD", "copy", 4096, True, 15)
    assert (clear.kind, clear.end - clear.start, clear.launched) == ("clear", 40, None)


def test_on_a_stand_in_operations_are_kernels() -> None:
    import jax_trace
    import xplane

    operation = message((1, 2), (5, "dot.3"))
    host = plane(
        "/host:CPU", [NAME, "dot.3"], line(1 << 40, "tf_Compute", event(0, 0, 900), event(1, 5, 70, operation))
    )
    told = jax_trace.trace(list(xplane.planes(message((1, host)))), None)
    kinds = [(one["cat"], one["name"]) for one in told["traceEvents"]]
    assert kinds == [("user_annotation", NAME), ("kernel", "dot.3")]
    assert told["deviceProperties"] == [{"id": 0, "name": "stand-in"}]
