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
DEFAULT = "default"  # the role of a row that is measured where nobody names one
CEILING = "ceiling"  # … of one that nothing on its device can beat


@dataclass(frozen=True)
class Variant(Generic[P]):
    """A row in an operation's table.

    `prepare` compiles, plans, packs and allocates once; the bind it returns only sets addresses.
    `accepts` is pure: why this kernel cannot, or should not, do a problem. `missing` tells without
    importing anything why it cannot run on this installation. `work` is what it really executes
    where that differs from the nominal. `constant` names the inputs it may keep between calls.
    `parts`, where a launch would be too long, are measured in its place, each once a round, and their
    times per use summed: (variant, uses).
    `blas` says which library call it makes, in the library's own column-major terms; `kernel` what its
    library tells of itself: version and kernel family, instruction set. `python`: each call passes
    through the interpreter. `judged` is the problem by whose bounds its answer is judged, where that depends on the
    algorithm. `roles`: where it is measured where no variant is named: DEFAULT, wherever a question
    asks for no other role; others by the words that a question of its benchmark asks for; none: only by its name.
    `times`: how often a use does the problem's work, of a row that calls another again and again. `link`: whether its
    bytes cross the link between the device and its host, which bounds them.
    """

    name: str
    device: str
    provider: str
    prepare: Callable[[P, Device, Setting], Bind]
    precision: str = "fp32"
    growth: float = 1.0
    accepts: Callable[[P], str | None] = lambda problem: None
    missing: Callable[[], str | None] = lambda: None
    work: Callable[[P], Work] | None = None
    constant: tuple[str, ...] = ()
    parts: Callable[[P], tuple[tuple[Variant[P], int], ...]] = lambda problem: ()
    blas: Callable[[P], str | None] = lambda problem: None
    kernel: Callable[[], tuple[str | None, str | None]] = lambda: (None, None)
    python: bool = False
    judged: Callable[[P], P] = lambda problem: problem
    roles: tuple[str, ...] = (DEFAULT,)
    times: int = 1
    link: bool = False

    def computes(self, problem: P) -> str:
        """The precision of its answer: what the problem asks for, or its own where that is coarser."""
        if self.precision == "fp32":  # it has none of its own
            return problem.precision
        return max(self.precision, problem.precision, key=lambda name: UNIT_ROUNDOFF[name])

    def u(self, problem: P) -> float:
        """Unit roundoff times its error growth."""
        return UNIT_ROUNDOFF[self.computes(problem)] * self.growth

    def executed(self, problem: P) -> Work:
        return self.work(problem) if self.work else Work(problem.flops, problem.bytes)


def row(provider: Provider, name: str, prepare: Callable[[P, Any, Setting], Bind], **fields: Any) -> Variant[P]:
    """Return a variant with what its provider's variants have in common, unless `fields` of Variant say otherwise."""
    common: dict[str, Any] = {"missing": provider.missing, "kernel": provider.kernel, "python": provider.python}
    return Variant(name, provider.device, provider.name, prepare, **(common | fields))
