"""The interface of a device: memory, order of launches, clock, state of rest, description."""

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
    """Capacities of a device, and its approximate speed."""

    memory: int  # bytes
    cores: int
    caches: tuple[int, ...]  # bytes from the first level to the last, as one core sees them
    flops: float = 100e9  # FLOP/s of one core or of the GPU, a guess that shares a budget before anything is timed
    bandwidth: float = 20e9  # bytes/s, as much of a guess
    visit: float = 0.0  # seconds of a sample beside its launches, if made step by step
    features: tuple[str, ...] = ()  # instructions that not every device of its kind has, as "wgmma"
    link: float = 0.0  # bytes/s to the host and as many back, by its clock; 0: none, or not known

    @property
    def usable_cache(self) -> int:
        """Bytes of the last level, 64 MiB at most, because a cloud machine reports caches that it shares.

        No ceiling depends on it."""
        return min(self.caches[-1] if self.caches else 32 << 20, 64 << 20)


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Seconds between two marks."""

    wall: float  # by the wall clock
    cpu: float  # of the process's CPU time, else NaN
    queued: float = math.inf  # most that others took of the time not run; infinite if no core was given up


class Row(Protocol):
    """The fields of a variant that a device reads."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> str: ...


def written_for(variant: V, kind: Kind, name: str) -> V:
    """Return the variant if it is a kernel of this kind. Raises Unavailable."""
    if variant.device != kind.kernels:
        raise Unavailable(f"{variant.name} is a kernel for {variant.device}, not for {name}")
    return variant


class Device(Protocol):
    """An open device."""

    kind: Kind
    name: str

    def adopt(self, variant: V) -> V:
        """Return the variant as this device runs it: itself, except on the fake device.

        Raises Unavailable for a variant that is written for another kind."""

    def allocate(self, nbytes: int) -> Any:
        """Allocate a block of touched memory."""

    def scatter(self, block: Any, seed: int, dtype: str = "fp32", data: str = "normal") -> None:
        """Fill a block with random numbers of an element type, normal unless `data` names others."""

    def view(self, block: Any, offset: int, operand: Operand) -> Any:
        """Return the operand's array `offset` bytes into a block; moves nothing."""

    def put(self, view: Any, array: Array) -> None:
        """Copy a host array of float32 into a view, rounded to its type."""

    def get(self, view: Any) -> Array:
        """Copy a view to the host, as float32."""

    def sync(self) -> None:
        """Wait for everything enqueued."""

    def mark(self) -> Any:
        """Enqueue a time stamp."""

    def passed(self, mark: Any) -> bool:
        """Return whether the device has reached a mark, without waiting."""

    def between(self, start: Any, end: Any) -> Elapsed:
        """Return the time between two marks that have passed."""

    def overhead(self) -> float:
        """Return the seconds between two adjacent marks, which are subtracted from every sample."""

    def flush(self) -> None:
        """Empty the caches."""

    def hold(self) -> None:
        """Stall the device, so that launches are enqueued behind the mark before it starts."""

    def release(self) -> None:
        """End `hold`."""

    def repeat(self, launch: Launch, count: int) -> Callable[[], object]:
        """Return one call that makes `count` launches, at the least cost between them."""

    def pace(self) -> Pace:
        """Return clock and throttled time so far; the difference of two readings is of the time between them."""

    def state(self) -> dict[str, float]:
        """Return clocks, temperature and power as far as reported: megahertz, celsius, watts."""

    def describe(self) -> dict[str, Any]:
        """Return the facts of the device, a part of the environment's digest."""

    def limits(self) -> Limits:
        """Return the capacities of the device."""
