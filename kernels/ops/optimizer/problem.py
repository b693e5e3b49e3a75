"""One step of an optimizer over all tensors of a network, their gradients given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import UsageError
from kernels.ops.optimizer import rules
from kernels.problem import Operand, Problem, axis

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array, Arrays

LINE = 16  # elements of a cache line
APART = 5  # whole lines between the rows of the state: rows a power of two apart would share cache sets


@dataclass(frozen=True)
class Optimizer(Problem):
    """`rule` applied to `tensors` parameters of `size` elements each, which lie one behind the other.

    g is 1×N, N = tensors·size. s is (1 + state)×N: the parameters p, below them what the rule keeps of earlier
    steps: a velocity or a first moment, a second moment. All of it is checked. The formulas are PyTorch's
    (kernels/ops/optimizer/rules.py), with its places of epsilon, late in training: corrections of the bias of
    moments are 1 then, and a step can be repeated.

    The rate is negative: the step climbs, as with maximize=True of torch. From gradients and state drawn in
    [0, 1) (--data uniform, which rules with a second moment ask for) nothing then changes its sign, and no round
    finds a negative second moment where an earlier one left a parameter. Parameters grow by as much in each
    launch, those of decay by one part in 80 000: neither reaches infinity in the launches of a run, and what
    decays, decays towards the gradient or its square, not to denormal numbers.
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
    def kept(self) -> int:
        """Arrays beside the parameters."""
        return rules.RULES[self.rule].kept

    @property
    def flops(self) -> float:
        return float(rules.RULES[self.rule].flops * self.count)

    @property
    def bytes(self) -> float:
        return float(rules.RULES[self.rule].bytes * self.count)

    def operands(self) -> tuple[Operand, ...]:
        pad = APART * LINE + -self.count % LINE if self.kept else 0
        return (
            Operand("g", (1, self.count), "in"),
            Operand("s", (1 + self.kept, self.count), "inout" if self.rule != "copy" else "out", pad=pad),
        )

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        """Normal numbers; second moments are squares."""
        import numpy as np

        x = super().fill(rng, probe)
        for row in rules.RULES[self.rule].squares:
            np.abs(x["s"][row], out=x["s"][row])
        return x

    def reference(self, x: Arrays) -> dict[str, Array]:
        import numpy as np

        g = x["g"][0].astype(np.float64)
        s = x["s"].astype(np.float64) if "s" in x else np.zeros((1, self.count))
        return {"s": rules.RULES[self.rule].step(self, g, s)}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Roundings of each operation, carried to the parameters; none of a copy."""
        import numpy as np

        if self.rule == "copy":
            return {"s": np.zeros_like(want["s"])}
        g, s = x["g"][0].astype(np.float64), x["s"].astype(np.float64)
        return {"s": rules.bound(self, g, s, want["s"], max(u, UNIT_ROUNDOFF["fp32"]))}
