"""The interface of a device: memory, order of launches, clock, state of rest, description of itself."""

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
    """What the device can hold, and roughly how fast it is. Bytes; `caches` from the first level to the last, of one
    core's view. FLOP/s and bytes/s are a guess from its size, that of one core of a CPU, by which a budget is shared
    before anything was timed; `visit`: seconds a visit takes beside its launches, where it is made step by step.
    `features`: instructions that not every device of its kind has, as "wgmma". `link`: bytes/s to the host, and as many
    back at once, by the clock of what lies between; 0 where there is none, or it is not known."""

    memory: int
    cores: int
    caches: tuple[int, ...]
    flops: float = 100e9
    bandwidth: float = 20e9
    visit: float = 0.0
    features: tuple[str, ...] = ()
    link: float = 0.0

    @property
    def usable_cache(self) -> int:
        """The last level, 64 MiB at most: a cloud machine reports caches it must share. No ceiling hangs on it."""
        return min(self.caches[-1] if self.caches else 32 << 20, 64 << 20)


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Seconds between two marks: by the wall, and of the process' processor time where that is known, else NaN.
    `queued`: how many others can have taken of what it did not run; infinite where it never gave its core up."""

    wall: float
    cpu: float
    queued: float = math.inf


class Row(Protocol):
    """What a device reads of a variant."""

    @property
    def name(self) -> str: ...

    @property
    def device(self) -> str: ...


def written_for(variant: V, kind: Kind, name: str) -> V:
    """The variant, where it is a kernel of this kind. Raises Unavailable."""
    if variant.device != kind.kernels:
        raise Unavailable(f"{variant.name} is a kernel for {variant.device}, not for {name}")
    return variant


class Device(Protocol):
    """One that is open."""

    kind: Kind
    name: str

    def adopt(self, variant: V) -> V:
        """The variant as this device runs it; itself, except on the fake device. Raises Unavailable for one that is
        written for another kind."""

    def allocate(self, nbytes: int) -> Any:
        """A block of touched memory."""

    def scatter(self, block: Any, seed: int, dtype: str = "fp32", data: str = "normal") -> None:
        """Fill a block with random numbers of an element type, normal ones unless `data` says else."""

    def view(self, block: Any, offset: int, operand: Operand) -> Any:
        """The operand's array `offset` bytes into a block. Sets an address; moves nothing."""

    def put(self, view: Any, array: Array) -> None:
        """Copy a host array of float32 into a view, rounded to its type."""

    def get(self, view: Any) -> Array:
        """Copy a view to the host, as float32."""

    def sync(self) -> None:
        """Wait for everything enqueued."""

    def mark(self) -> Any:
        """Enqueue a time stamp."""

    def passed(self, mark: Any) -> bool:
        """Whether the device has come to a mark; asks and does not wait."""

    def between(self, start: Any, end: Any) -> Elapsed:
        """Time between two marks that have passed."""

    def overhead(self) -> float:
        """Seconds between two marks with nothing between them, which are taken off every visit."""

    def flush(self) -> None:
        """Empty the caches."""

    def hold(self) -> None:
        """Keep the device from starting what is enqueued, so that the launches stand ready behind the mark."""

    def release(self) -> None:
        """End `hold`."""

    def repeat(self, launch: Launch, count: int) -> Callable[[], object]:
        """One call that makes `count` launches, at the least cost between them."""

    def pace(self) -> Pace:
        """Its clock, and what held it down so far; the difference of two tells of the time between them."""

    def state(self) -> dict[str, float]:
        """Clocks, temperature, power, as far as it tells them: megahertz, celsius, watts."""

    def describe(self) -> dict[str, Any]:
        """What it is: part of the environment's digest."""

    def limits(self) -> Limits:
        """What it can hold."""
