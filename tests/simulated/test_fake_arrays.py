"""The fake CuPy's arrays refuse what CuPy 14 refuses, and do nothing before their turn in the stream."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.devices.cuda import Cuda
from kernels.libs import torch_cuda
from tests.simulated import fake_gpu
from tests.simulated.fake_cupy import FakeCupy

HOST = np.arange(6, dtype=np.float32).reshape(2, 3)
Ask = Callable[[FakeCupy, Any], object]


@pytest.fixture
def cp() -> FakeCupy:
    fake = FakeCupy()
    Cuda(0, fake)  # its gate is open
    return fake


REFUSED: tuple[tuple[type[Exception], str, Ask], ...] = (
    (TypeError, "Unsupported type", lambda cp, x: HOST * x),
    (TypeError, "Unsupported type", lambda cp, x: cp.exp(x, HOST.copy())),
    (TypeError, "Implicit conversion", lambda cp, x: np.asarray(x)),
    (ValueError, "Out shape", lambda cp, x: cp.exp(x, x[:1])),
    (TypeError, "Cannot cast", lambda cp, x: cp.exp(x, cp.empty((2, 3), np.int64))),
    (AssertionError, "is captured", lambda cp, x: (cp.stream.begin_capture(), x + 1)),
)


@pytest.mark.parametrize(("kind", "words", "ask"), REFUSED)
def test_what_cupy_refuses_is_refused(cp: FakeCupy, kind: type[Exception], words: str, ask: Ask) -> None:
    with pytest.raises(kind, match=words):
        ask(cp, cp.asarray(HOST))


ROWS: list[Any] = []
KERNELS: dict[str, tuple[int | None, Ask]] = {  # None: it waits for the stream
    "its values": (None, lambda cp, x: x.get()),
    "a truth": (None, lambda cp, x: bool((x == 0).all())),
    "an operator": (1, lambda cp, x: 2 * x),
    "onto its own memory by another array": (2, lambda cp, x: cp.add(x[:], 1, x)),
    "a reduction": (1, lambda cp, x: cp.sum(x, axis=1)),
    "a reduction into memory that is there": (2, lambda cp, x: cp.sum(x, axis=1, out=cp.empty((2,), "f4"))),
    "rows": (1, lambda cp, x: x[ROWS[0]]),
    "elements changed": (9, lambda cp, x: x.__setitem__((ROWS[0], ROWS[0]), x[ROWS[0], ROWS[0]] - 1)),
    "a part put back where it is": (0, lambda cp, x: x.__setitem__(slice(None), x[:])),
    "an index of the host": (2, lambda cp, x: x[np.array([1, 0])]),
    "cleared": (1, lambda cp, x: x.fill(0)),
}


@pytest.mark.parametrize(("count", "ask"), KERNELS.values(), ids=KERNELS)
def test_everything_is_enqueued_and_nothing_done_before_its_turn(cp: FakeCupy, count: int | None, ask: Ask) -> None:
    """As many kernels, copies and clearings as CuPy launches. What waits cannot be timed behind a holding kernel."""
    x = cp.asarray(HOST)
    ROWS[:] = [cp.asarray(np.array([1, 0]))]
    cp.run()
    Cuda(0, cp).hold()
    cp.journal.clear()
    if count is None:
        with pytest.raises(AssertionError, match="still held"):
            ask(cp, x)
        return
    ask(cp, x)
    assert len(cp.journal) == count, cp.journal
    assert np.array_equal(x.host, HOST)


@pytest.fixture
def torch(cp: FakeCupy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    if importlib.util.find_spec("torch") is None:
        pytest.skip("no torch: pip install torch")
    fake_gpu.install(monkeypatch, cp, tmp_path)
    return torch_cuda.load(Cuda(0, cp))


def test_tensors_of_the_host_are_refused_among_the_devices(torch: Any, cp: FakeCupy) -> None:
    """But for a number, as PyTorch does."""
    x = torch_cuda.tensor(torch, cp.asarray(HOST))
    host = torch.from_numpy(HOST)
    for ask in (lambda: x + host, lambda: torch.mul(x, host, out=x), lambda: torch.exp(host, out=x)):
        with pytest.raises(RuntimeError, match="on the same device"):
            ask()
    assert (x + torch.tensor(1.0)).device == torch.device("cuda:0")
    assert host.to("cuda:0").device.type == "cuda"


def test_operators_of_torch_wait_for_their_turn(torch: Any, cp: FakeCupy) -> None:
    """In the order in which they were called; an item waits for them."""
    array = cp.asarray(HOST)
    x = torch_cuda.tensor(torch, array)
    ones = torch.ones((2, 3), device="cuda:0")
    cp.run()
    Cuda(0, cp).hold()
    cp.journal.clear()
    y = torch.add(x, 1)
    x.copy_(y)
    x[1].mul_(2)
    torch.sub(x, ones, out=x)
    assert cp.journal == ["aten::add", "aten::copy_", "aten::mul_", "aten::sub"]
    assert np.array_equal(array.host, HOST)
    with pytest.raises(AssertionError, match="still held"):
        x[0, 0].item()
    cp.gate[:] = 1
    assert x[1, 2].item() == 11 and array.get().tolist() == [[0, 1, 2], [7, 9, 11]]
