"""What the fake CuPy hands out: memory, arrays, events, graphs, streams, modules of kernels."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.simulated import launcher
from tests.simulated.fake_arrays import DeviceArray

if TYPE_CHECKING:
    from tests.simulated.fake_cupy import FakeCupy

STREAM = 7  # its address
PAGE = 512  # bytes: CuPy's pool gives out multiples of it
DEPTH = 1022  # entries of a stream before it stops its caller: seen on sm_70 to sm_90, NVIDIA does not say
POLL = 1e-6  # seconds of the caller to ask whether an event has passed
CLOCK = 2e9  # of the device, by which a holding kernel counts its patience
HANDLE = 0xC0B1A5  # CuPy's own of cuBLAS
Step = Callable[[], None]


class CUDARuntimeError(RuntimeError):
    """As CuPy raises it for whatever the runtime answers that is no success."""


@dataclass
class Entry:
    """An entry of a stream's queue."""

    step: Step
    seconds: float  # on the device
    at: float  # when its caller had enqueued it
    patience: float | None = None  # seconds until a holding kernel lets go by itself


class Event:
    def __init__(self, fake: FakeCupy, timing: bool = True) -> None:
        self.fake, self.at, self.timing, self.recorded = fake, float("nan"), timing, False

    def record(self, stream: object) -> None:
        assert stream is self.fake.stream
        self.recorded = True
        self.fake.journal.append("mark")
        self.fake.enqueue(self._stamp)

    @property
    def done(self) -> bool:
        self.fake.host += POLL  # else whoever asks until it has passed would ask for ever
        self.fake.advance()
        return self.at <= self.fake.host

    def _stamp(self) -> None:
        self.at = self.fake.clock


class Graph:
    """One entry of a queue, however much work it is."""

    def __init__(self, fake: FakeCupy, work: list[tuple[Step, float]]) -> None:
        self.fake, self.work = fake, work

    def upload(self, stream: object) -> None:
        self.fake.journal.append("upload")

    def launch(self, stream: object) -> None:
        assert stream is self.fake.stream
        self.fake.journal.append(f"graph of {len(self.work)}")

        def replay() -> None:
            for step, seconds in self.work:
                self.fake.clock += seconds
                step()

        self.fake.enqueue(replay)


class Stream:
    """Work waits while the gate is shut, as it does behind the holding kernel."""

    def __init__(self, fake: FakeCupy) -> None:
        self.fake, self.ptr = fake, STREAM
        self.current: bool | None = None  # none was made current yet
        self.entered = False
        self.captured: list[tuple[Step, float]] | None = None
        self.invalid = False

    def use(self) -> Stream:
        self.current = True
        return self

    def __enter__(self) -> Stream:
        self.current = self.entered = True
        return self

    def left(self) -> None:
        """CuPy entered a stream and left it: the one before is current, not one that was made so by use() alone."""
        self.current = self.current and self.entered

    def synchronize(self) -> None:
        self.fake.journal.append("sync")
        self.fake.run()

    def wait_event(self, event: Event) -> None:
        """There is one stream: what the event was recorded behind is done before what follows."""
        assert event.recorded, "waited for what was never recorded"

    def begin_capture(self) -> None:
        self.fake.raise_what_stays()
        self.captured, self.invalid = [], False

    def end_capture(self) -> Graph:
        work, self.captured = self.captured or [], None
        if self.invalid:
            raise CUDARuntimeError(
                "cudaErrorStreamCaptureInvalidated: operation failed due to a previous error during capture"
            )
        return Graph(self.fake, work)


class Module:
    """A file of kernels by its text, or by a cubin. As CuPy's, it is compiled when a kernel is asked for."""

    def __init__(self, fake: FakeCupy, code: str | None = None, path: str | None = None) -> None:
        assert (code is None) != (path is None)
        fake.journal.append("module of code" if code is not None else f"module of {Path(str(path)).name}")
        self.fake, self.text = fake, code if code is not None else Path(str(path)).read_text("utf-8")

    def get_function(self, name: str) -> Callable[..., None]:
        if self.fake.refuses:
            raise self.fake.refuses
        if name not in launcher.names(self.text):
            raise RuntimeError(f"CUDA_ERROR_NOT_FOUND: named symbol not found\n{name}")

        def launch(grid: Any, block: Any, arguments: Sequence[Any], *, shared_mem: int = 0) -> None:
            assert shared_mem == 0, "the shim has no dynamic shared memory"
            self.fake.start(self.text, name, grid, block, [passed(x) for x in arguments])

        return launch


def passed(argument: Any) -> bytes:
    """What CuPy hands to a kernel: an array's address, or a NumPy scalar of its own size."""
    if isinstance(argument, DeviceArray):
        return int(argument.data.ptr).to_bytes(8, "little")
    assert isinstance(argument, np.generic), f"CuPy chooses a type for {argument!r} by itself"
    return argument.tobytes()


def run_kernel(text: str, name: str, grid: Sequence[int], block: Sequence[int], values: Sequence[bytes]) -> None:
    """One launch through the shim. Raises launcher.LaunchFailed."""
    assert len(grid) == len(block) == 3 and min(*grid, *block) > 0
    assert max(grid[1:]) < 1 << 16, "a grid's second and third extents end at 65535"
    entry = getattr(launcher.load(text), f"launch_{name}")
    entry.restype = ctypes.c_char_p
    # Behind a value that is too short lies something that shows.
    kept = [ctypes.create_string_buffer(value + b"\xa5" * 8) for value in values]
    places = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(x) for x in kept))
    triple = ctypes.c_uint * 3
    if told := entry(triple(*grid), triple(*block), 0, places, len(kept)):
        raise launcher.LaunchFailed(told.decode())


class Pooled:
    """Of the pool of host memory, to which it goes back with the object. `blocks`: all that are out, by address."""

    def __init__(self, place: int, blocks: dict[int, Any]) -> None:
        self.ptr = place
        weakref.finalize(self, blocks.pop, place)


class PinnedWord(np.ndarray):
    """Pinned memory: a buffer with an address of its own."""

    ptr: int = 0
