"""Variant: one kernel that solves a problem, a row in its operation's table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kernels.dtypes import UNIT_ROUNDOFF
from kernels.launch import Bind
from kernels.problem import Problem, Work
from kernels.provider import Provider
from kernels.setting import Setting

if TYPE_CHECKING:
    from kernels.devices.base import Device

P = TypeVar("P", bound=Problem)
DEFAULT = "default"  # role of a row that is measured if no variant is named
CEILING = "ceiling"  # role of a row that nothing on its device can beat


@dataclass(frozen=True, eq=False)
class Variant(Generic[P]):
    """A kernel for an operation's problems: a row in the operation's table."""

    name: str
    device: str  # kind of device
    provider: str
    prepare: Callable[[P, Device, Setting], Bind]  # does all the work except setting addresses, which its Bind does
    precision: str = "fp32"
    growth: float = 1.0  # of errors, a factor on the unit roundoff
    accepts: Callable[[P], str | None] = lambda problem: None  # pure: why it refuses a problem, or None
    missing: Callable[[], str | None] = lambda: None  # why it cannot run here, or None; imports no library
    work: Callable[[P], Work] | None = None  # work executed, if not the nominal work
    constant: tuple[str, ...] = ()  # names of inputs that it may assume unchanged between calls
    # (variant, uses) measured in place of a launch that is too long, each once a round, times per use summed.
    parts: Callable[[P], tuple[tuple[Variant[P], int], ...]] = lambda problem: ()
    blas: Callable[[P], str | None] = lambda problem: None  # the library's call, in column-major terms
    # The library's report: version and kernel family, instruction set.
    kernel: Callable[[], tuple[str | None, str | None]] = lambda: (None, None)
    python: bool = False  # each call passes through the interpreter
    judged: Callable[[P], P] = lambda problem: problem  # the problem whose error bounds apply to the answer
    roles: tuple[str, ...] = (DEFAULT,)  # selected by these if no name is given: DEFAULT, or a question's role
    times: int = 1  # problems that one use solves, if the variant repeats another variant
    link: bool = False  # data cross the link of device and host, whose bandwidth is the bound

    def computes(self, problem: P) -> str:
        """Return the precision of the answer: the problem's, or the variant's if that is coarser."""
        if self.precision == "fp32":  # the problem's alone counts
            return problem.precision
        return max(self.precision, problem.precision, key=lambda name: UNIT_ROUNDOFF[name])

    def u(self, problem: P) -> float:
        """Return the unit roundoff times the error growth."""
        return UNIT_ROUNDOFF[self.computes(problem)] * self.growth

    def executed(self, problem: P) -> Work:
        return self.work(problem) if self.work else Work(problem.flops, problem.bytes)


def row(provider: Provider, name: str, prepare: Callable[[P, Any, Setting], Bind], **fields: Any) -> Variant[P]:
    """Return a variant with its provider's `missing`, `kernel` and `python`, or `fields` in their place."""
    common: dict[str, Any] = {"missing": provider.missing, "kernel": provider.kernel, "python": provider.python}
    return Variant(name, provider.device, provider.name, prepare, **(common | fields))
