"""The interface of a device: memory, order of launches, clock, momentary state, description."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kernels.errors import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernels.devices.kind import Kind
    from kernels.launch import Launch
    from kernels.pace import Pace
    from kernels.problem import Array, Operand

V = TypeVar("V", bound="Row")


@dataclass(frozen=True, slots=True)
class Limits:
    """Capacities of a device, its cores and its approximate speed."""

    memory: int  # bytes
    cores: int
    caches: tuple[int, ...]  # bytes from the first level to the last, as one core sees them
    flops: float = 100e9  # FLOP/s of one core or of the GPU, a guess that divides the time budget before any timing
    bandwidth: float = 20e9  # bytes/s, a guess for the same purpose
    visit: float = 0.0  # overhead of a sample in seconds, if the host makes it step by step
    features: tuple[str, ...] = ()  # instructions that not every device of the kind has, such as "wgmma"
    link: float = 0.0  # bytes/s to the host, and as many from it, by the link's clock; 0: no link, or unknown

    @property
    def usable_cache(self) -> int:
        """Bytes of the last cache level, at most 64 MiB, because cloud machines report shared caches in full.

        No ceiling depends on the value."""
        return min(self.caches[-1] if self.caches else 32 << 20, 64 << 20)


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Seconds between two marks, by several clocks."""

    wall: float  # by the wall clock, or by a GPU's events
    cpu: float  # CPU time of the process; NaN on a GPU
    queued: float = math.inf  # most seconds in which other processes held the core; infinite if unknown


class Row(Protocol):
    """The fields of a variant that a device reads."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> str: ...


def written_for(variant: V, kind: Kind, name: str) -> V:
    """Return the variant if it is written for this kind of device, else raise Unavailable."""
    if variant.device != kind.kernels:
        raise Unavailable(f"{variant.name} is written for {variant.device}, not for {name}")
    return variant


class Device(Protocol):
    """An open device: memory, launches, clock and description."""

    kind: Kind
    name: str

    def adopt(self, variant: V) -> V:
        """Return the variant as this device runs it: unchanged, except on the fake device.

        Raises Unavailable for a variant that is written for another kind of device."""

    def allocate(self, nbytes: int) -> Any:
        """Return a block of `nbytes` bytes of memory, aligned and, on a CPU, touched."""

    def scatter(self, block: Any, seed: int, dtype: str = "fp32", data: str = "normal") -> None:
        """Fill a block with random numbers of an element type, normal unless `data` names other data."""

    def view(self, block: Any, offset: int, operand: Operand) -> Any:
        """Return the operand's array at byte `offset` of a block, without a copy."""

    def put(self, view: Any, array: Array) -> None:
        """Copy a host array into a view, rounded to the view's element type."""

    def get(self, view: Any) -> Array:
        """Copy a view to the host, as float32, or as float64 if it holds int32 or int64."""

    def sync(self) -> None:
        """Wait until the device has run all enqueued work."""

    def mark(self) -> Any:
        """Enqueue a time stamp and return it for `passed` and `between`."""

    def passed(self, mark: Any) -> bool:
        """Return whether the device has reached a mark, without waiting."""

    def between(self, start: Any, end: Any) -> Elapsed:
        """Return the time between two marks that have passed."""

    def overhead(self) -> float:
        """Return the seconds between two adjacent marks, which are subtracted from every sample."""

    def flush(self) -> None:
        """Empty the caches."""

    def hold(self) -> None:
        """Stall the device until `release`, so that marks and launches are all enqueued before any runs."""

    def release(self) -> None:
        """Let the device run the work that was enqueued since `hold`."""

    def repeat(self, launch: Launch, count: int) -> Callable[[], object]:
        """Return a function that makes `count` launches with the least overhead between them."""

    def pace(self) -> Pace:
        """Return the clock now, and the throttled time so far, a counter to read before and after."""

    def state(self) -> dict[str, float]:
        """Return clocks, temperature and power as far as reported: megahertz, celsius, watts."""

    def describe(self) -> dict[str, Any]:
        """Return the facts of the device for a run's record, where they enter the environment's digest."""

    def limits(self) -> Limits:
        """Return the capacities of the device."""
