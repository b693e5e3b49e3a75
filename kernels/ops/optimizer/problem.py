"""One step of an optimizer over all tensors of a network, their gradients given."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from kernels import places
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import UsageError
from kernels.ops.optimizer import rules
from kernels.problem import Excerpt, Operand, Problem, axis

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Arrays


@dataclass(frozen=True)
class Optimizer(Problem):
    """`rule` applied to `tensors` parameters of `size` elements each, which lie one behind the other.

    The gradient g, the parameters p and what the rule keeps of earlier steps are arrays of N = tensors·size: a
    velocity v; or a first moment m and a second one v; of adadelta v and the mean square u of its steps. The formulas
    are PyTorch's (kernels/ops/optimizer/rules.py), with its places of epsilon, late in training: corrections of the
    bias of moments are 1 then, and a step can be repeated.

    The rate is negative: the step climbs, as with maximize=True of torch. From gradients and state drawn in
    [0, 1) (--data uniform, which rules with a second moment ask for) nothing then changes its sign, and no round
    finds a negative second moment where an earlier one left a parameter. Parameters grow by as much in each
    launch, those of decay by one part in 80 000: neither reaches infinity in the launches of a run, and what
    decays, decays towards the gradient or its square, not to denormal numbers.

    A NaN of the gradient goes to its parameter and state; not where it is clipped, on which libraries do not agree.
    """

    op: ClassVar[str] = "optimizer"

    rule: str = axis("which optimizer; copy moves the gradient and is the traffic alone", choices=rules.NAMES)
    tensors: int = axis("tensors of parameters", low=1)
    size: int = axis("parameters of each", low=1)
    lr: float = axis("learning rate, negative: it climbs", -0.125)
    mu: float = axis("momentum; first decay of adam", 0.9, low=0)
    rho: float = axis("decay of the second moment", 0.999, low=0)
    decay: float = axis("weight decay", 1e-4, low=0)
    eps: float = axis("epsilon", 1e-8, low=0)
    limit: float = axis("most of an element of g (clip), of its root mean square (norm)", 0.5, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("mu", "rho"):
            if getattr(self, name) >= 1:
                raise UsageError(f"--{name} {getattr(self, name)}: state would grow without end; take less than 1")

    @property
    def count(self) -> int:
        return self.tensors * self.size

    @property
    def state(self) -> tuple[str, ...]:
        """Names of the arrays beside the parameters."""
        return rules.RULES[self.rule].state

    @property
    def flops(self) -> float:
        return float(rules.RULES[self.rule].flops * self.count)

    @property
    def bytes(self) -> float:
        return float(rules.RULES[self.rule].bytes * self.count)

    @property
    def summed(self) -> int:
        return self.count if self.rule == "norm" else 1

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {} if self.rule in ("clip", "norm") else {"g": (math.nan,)}

    def operands(self) -> tuple[Operand, ...]:
        shape = (self.count,)
        p = Operand("p", shape, "inout" if self.rule != "copy" else "out")
        squares = rules.RULES[self.rule].squares
        state = (Operand(name, shape, "inout", nonnegative=name in squares) for name in self.state)
        return Operand("g", shape, "in"), p, *state

    def _stacked(self, x: Arrays) -> Array:
        """Parameters and state in float64, an array each."""
        import numpy as np

        names = ("p", *self.state) if "p" in x else ()
        return np.array([x[name] for name in names], np.float64).reshape(len(names), self.count)

    def _named(self, rows: Array) -> dict[str, Array]:
        return dict(zip(("p", *self.state), rows, strict=True))

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        if self.rule == "norm":  # of the whole gradient
            return super().excerpt(rng)
        some = places.elements(rng, self.count)
        part = replace(self, tensors=1, size=len(some))
        return Excerpt(part, {x.name: (some,) for x in self.operands()})

    def reference(self, x: Arrays) -> dict[str, Array]:
        import numpy as np

        return self._named(rules.RULES[self.rule].step(self, x["g"].astype(np.float64), self._stacked(x)))

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Roundings of each operation, carried to the parameters; none of a copy."""
        import numpy as np

        if self.rule == "copy":
            return {"p": np.zeros_like(want["p"])}
        g, after = x["g"].astype(np.float64), self._stacked(want)
        return self._named(rules.bound(self, g, self._stacked(x), after, max(u, UNIT_ROUNDOFF["fp32"])))
