"""Recurrent rows of cuDNN on the stand-in: how much they copy, what they are refused, and mistakes that are seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.errors import Unavailable, WrongResult
from kernels.libs import cudnn_rnn
from kernels.libs.cudnn_rnn import Recurrence
from kernels.ops.recurrent import gpu
from kernels.ops.recurrent.problem import Recurrent
from kernels.setting import Setting
from tests.gpu.rows import enqueued, once
from tests.simulated import fake_gpu
from tests.simulated.fake_arrays import Memory
from tests.simulated.fake_cupy import FakeCupy

SIZES = (5, 6, 3, 7)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Cuda]:
    with pytest.MonkeyPatch.context() as patch:
        fake = FakeCupy()
        fake_gpu.install(patch, fake, tmp_path)
        yield Cuda(0, fake)


COPIES = [("", "lstm", 3), ("", "gru", 4), ("", "rnn", 3), ("-persistent", "lstm", 12), ("-persistent", "gru", 10)]


@pytest.mark.parametrize(("more", "cell", "copies"), COPIES)
def test_as_few_copies_as_the_layout_allows(device: Cuda, more: str, cell: str, copies: int) -> None:
    """A GRU's bias within the reset lies apart, here all weights of the persistent algorithm do."""
    row = find("recurrent", f"cudnn-rnn{more}")
    launch, journal = enqueued(device, row, Recurrent(*SIZES, cell))
    assert journal == [*["memcpy"] * copies, "library"]
    launch, journal = enqueued(device, row, Recurrent(*SIZES, cell, want="step"))
    clear = journal[copies + 2]
    assert journal == [*["memcpy"] * copies, "library", "library", clear, "library", *["memcpy"] * copies]
    assert clear.startswith("memset") and len(journal) <= launch.kernels
    assert launch.kernel == ("cuDNN 9.19.0", None)


def test_what_cudnn_refuses_in_a_trial_is_unavailable(device: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = device.dnn().api
    for function, want in (("RNNForward", "forward"), ("RNNBackwardWeights_v8", "step")):
        monkeypatch.setattr(library, "status", {function: 3000})
        with pytest.raises(Unavailable, match=f"cudnn{function} returned 3000"):
            problem = Recurrent(*SIZES, want=want)
            find("recurrent", "cudnn-rnn-persistent").prepare(problem, device, Setting(device=device.name))


def test_problems_that_cudnn_does_not_have_are_refused() -> None:
    accepts = find("recurrent", "cudnn-rnn").accepts
    assert accepts(Recurrent(*SIZES)) is None
    assert accepts(Recurrent(*SIZES, "gru-before")) == "has no GRU that resets before the product"
    assert accepts(Recurrent(99, 6, 3, 7, lengths="sorted")) == "computes all steps: --lengths full"
    assert accepts(Recurrent(1 << 10, 1 << 11, 1 << 10, 7)) is not None


def swapped(first: int, second: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a mistake: the places of two products, each in that of the other."""
    right, other = Recurrence.places, {first: second, second: first}

    def mistake(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(Recurrence, "places", lambda self, at, product: right(self, at, other.get(product, product)))

    return mistake


MISTAKES: dict[str, tuple[str, str, Callable[[pytest.MonkeyPatch], None]]] = {
    "two gates": ("lstm", "forward", swapped(2, 3)),
    "two gates of the state": ("lstm", "step", swapped(4, 5)),
    "reset and update": ("gru", "forward", swapped(0, 1)),
    "the bias within the reset": ("gru", "forward", swapped(4, 5)),
    "gradients are not cleared": ("rnn", "step", lambda patch: patch.setattr(Memory, "memset_async", lambda *x: None)),
    "nothing is copied": ("rnn", "forward", lambda patch: patch.setattr(gpu, "_copies", lambda *x: [])),
    "another layout": ("lstm", "forward", lambda patch: patch.setitem(cudnn_rnn.LAYOUTS, "ntc", (1, 0))),
}


@pytest.mark.parametrize("name", ["cudnn-rnn", "cudnn-rnn-persistent"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(device: Cuda, monkeypatch: pytest.MonkeyPatch, mistake: str, name: str) -> None:
    cell, want, make = MISTAKES[mistake]
    problem = Recurrent(*SIZES, cell, "ntc", want)
    once(device, find("recurrent", name), problem)
    make(monkeypatch)
    with pytest.raises(WrongResult):
        once(device, find("recurrent", name), problem)


def test_pieces_that_are_neighbors_in_one_place_alone_stay_apart() -> None:
    pieces = [("w", 0, 100, 4), ("w", 4, 104, 4), ("w", 8, 112, 4), ("r", 12, 116, 4), ("r", 20, 120, 4)]
    assert gpu.merged(pieces) == [("w", 0, 100, 8), *pieces[2:]]
