"""One weight update of a fully connected layer, with the product that computes the gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from kernels import bounds, places
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import UsageError
from kernels.lazy import np
from kernels.problem import GRADED, Array, Arrays, Excerpt, Operand, Problem, axis, direction

RULES = ("sgd", "decay", "momentum", "unit", "nesterov", "clip", "norm", "tied")
WITH_VELOCITY = ("momentum", "unit", "nesterov")
PIECES = ("clear", "scale")  # parts that are no direction
PARTS = ("step", "wgrad", "update", *PIECES)
# Operations and bytes per weight in the pass after the product; norm reads the gradient once more.
APPLY_FLOPS = {"sgd": 2, "decay": 4, "momentum": 4, "unit": 5, "nesterov": 6, "clip": 4, "norm": 4, "tied": 2}
APPLY_BYTES = {"sgd": 12, "decay": 12, "momentum": 20, "unit": 20, "nesterov": 20, "clip": 12, "norm": 16, "tied": 12}
PASS_LIMIT = 8.0  # roundings of an element that the passes may add up
# A product that adds to W may start each sum with W and then rounds k times at W's size: MKL's error at n = 10
# grows as 1.2 √k u |W|, for k = 16 to 4096. That hides no half precision, whose error is in the product.
SUM_LIMIT = 3.0
NORM_LIMIT = 512.0  # unit roundoffs of a sum of squares in single precision, in any order
SPARSE = 16  # samples that count in the sparse probe
IDLE, NEGLIGIBLE = 2.0**-40, 2.0**-30  # scale of the other samples; size that a float64 reference may leave out
SMALLEST_NORM = 1e-6  # added to the norm in a denominator, as in torch.nn.utils.clip_grad_norm_


@dataclass(frozen=True)
class Update(Problem):
    """Update of row-major weights W (m inputs × n outputs) by g = XᵀdY / k, with X k×m and dY k×n.

    A framework that stores W as outputs × inputs exchanges m and n. A NaN in X makes its row of g, W and V NaN;
    the rules that clip are not checked with NaN, as libraries differ.
    """

    op: ClassVar[str] = "update"
    probes: ClassVar[tuple[str, ...]] = ("dense", "sparse")

    m: int = axis("inputs of the layer (rows of W)", low=1)
    n: int = axis("outputs of the layer (columns of W)", low=1)
    k: int = axis("batch size", low=1)
    # sgd: W −= lr·g. decay: W −= lr·(g + decay·W). momentum: V = mu·V + g, W −= lr·V. unit: V = mu·V + (1 − mu)·g,
    # W −= lr·V. nesterov: V = mu·V + g, W −= lr·(g + mu·V). clip: each element of g within ± limit. norm: g times
    # min(1, limit / its root mean square). tied: two layers share W, so that g is a sum of two products; X and dY
    # have 2k rows, the second layer's below.
    rule: str = axis("update rule of the weights", "sgd", choices=RULES)
    # wgrad: g alone. update: the pass over a given g. clear: g = 0. scale: W = −W, read and written without drift.
    part: str = direction("the complete step, or one part of it", "step", "wgrad", "update", others=PIECES)
    # A smaller rate would hide errors of g under the rounding of W. Repeated launches add the same step each time and
    # never reach infinity; with decay W converges; nothing decays towards denormal numbers.
    lr: float = axis("learning rate", 1.0)
    mu: float = axis("momentum", 0.9, low=0)
    decay: float = axis("weight decay", 0.01, low=0)
    limit: float = axis("bound of each element of g (clip) or of its root mean square (norm)", 0.1, low=0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mu >= 1:
            raise UsageError(f"--mu {self.mu}: must be less than 1, else the velocity diverges")
        if not 0 <= self.lr * self.decay <= 1:
            raise UsageError(
                f"--lr {self.lr} --decay {self.decay}: lr × decay is {self.lr * self.decay:g}, must be 0 to 1"
            )

    @property
    def products(self) -> int:
        return 2 if self.rule == "tied" else 1

    @property
    def velocity(self) -> bool:
        return self.rule in WITH_VELOCITY

    @property
    def gain(self) -> float:
        """Share of the gradient that enters the velocity."""
        return 1 - self.mu if self.rule == "unit" else 1.0

    @property
    def count(self) -> int:
        return self.m * self.n

    @property
    def flops(self) -> float:
        product = 2.0 * self.products * self.count * self.k
        apply = float(APPLY_FLOPS[self.rule] * self.count)
        step = product + apply
        return {"step": step, "wgrad": product, "update": apply, "clear": 0.0, "scale": 1.0 * self.count}[self.part]

    @property
    def bytes(self) -> float:
        inputs = 4.0 * self.products * self.k * (self.m + self.n)
        state = (16.0 if self.velocity else 8.0) * self.count
        return {
            "step": inputs + state,
            "wgrad": inputs + 4.0 * self.count,
            "update": float(APPLY_BYTES[self.rule] * self.count),
            "clear": 4.0 * self.count,
            "scale": 8.0 * self.count,
        }[self.part]

    @property
    def summed(self) -> int:
        return self.products * self.k

    @property
    def graded(self) -> dict[str, int]:
        return {"x": 1} if self.part in ("step", "wgrad") and self.rule not in ("clip", "norm") else {}

    @property
    def special(self) -> dict[str, tuple[float, ...]]:
        return {"x": (math.nan,)} if self.part in ("step", "wgrad") and self.rule not in ("clip", "norm") else {}

    def operands(self) -> tuple[Operand, ...]:
        rows = self.products * self.k
        x, dy = Operand("x", (rows, self.m), "in"), Operand("dy", (rows, self.n), "in")
        shape = (self.m, self.n)
        w, g = Operand("w", shape, "inout"), Operand("g", shape, "out")
        state = (w, Operand("v", shape, "inout")) if self.velocity else (w,)
        return {
            "step": (x, dy, *state),
            "wgrad": (x, dy, g),
            "update": (Operand("g", shape, "in"), *state),
            "clear": (g,),
            "scale": (w,),
        }[self.part]

    def fill(self, rng: np.random.Generator, probe: str = "dense") -> dict[str, Array]:
        """Draw the operands; in sparse and graded probes few samples count, and the others are tiny.

        Tiny samples keep a kernel from recognizing the probe by zeros. W is scaled down too, or it would hide errors.
        """
        x = super().fill(rng, probe)
        if probe in ("sparse", GRADED) and "x" in x and self.products * self.k > SPARSE:
            x["x"][rng.permutation(len(x["x"]))[SPARSE:]] *= IDLE
            if "w" in x:
                x["w"] *= SPARSE / self.k
        return x

    def excerpt(self, rng: np.random.Generator) -> Excerpt:
        if self.rule == "norm":  # the norm needs the whole gradient
            return super().excerpt(rng)
        terms = self.products * self.k
        rows, columns = places.tile(rng, self.m, self.n, terms if self.part in ("step", "wgrad") else 1)
        batch = places.every((terms,))[0]
        of = {"x": (batch, rows), "dy": (batch, columns)}
        part = replace(self, m=len(rows), n=len(columns))
        return Excerpt(part, {x.name: of.get(x.name, (rows, columns)) for x in self.operands()})

    def reference(self, x: Arrays) -> dict[str, Array]:
        if self.part == "clear":
            return {"g": np.zeros((self.m, self.n))}
        if self.part == "scale":
            return {"w": -x["w"].astype(np.float64)}
        g = self.gradient(x)
        return {"g": g} if self.part == "wgrad" else self.stepped(x, g)

    def gradient(self, x: Arrays) -> Array:
        """Return g in float64, m×n, without the terms of negligible samples."""
        if self.part == "update":
            given: Array = x["g"].astype(np.float64)
            return given
        used = self._used(x)
        g: Array = x["x"][used].astype(np.float64).T @ x["dy"][used].astype(np.float64)
        return np.divide(g, self.k, out=g)

    def stepped(self, x: Arrays, g: Array) -> dict[str, Array]:
        """Return W, and V if there is one, after the step in float64; g is overwritten."""
        w = x["w"]
        if self.velocity:
            velocity = self.mu * x["v"].astype(np.float64) + self.gain * g
            way = g + self.mu * velocity if self.rule == "nesterov" else velocity
            return {"w": w - self.lr * way, "v": velocity}
        if self.rule == "decay":
            g += self.decay * w.astype(np.float64)
        elif self.rule == "clip":
            np.clip(g, -self.limit, self.limit, out=g)
        elif self.rule == "norm":
            g *= self.coefficient(g)
        np.multiply(g, -self.lr, out=g)  # in place: fresh pages cost more than the arithmetic
        return {"w": np.add(g, w, out=g)}

    def coefficient(self, g: Array) -> float:
        """Return the factor by which clipping by the global norm scales the gradient."""
        norm = math.sqrt(float((g * g).sum()))
        return min(1.0, self.limit * math.sqrt(self.count) / (norm + SMALLEST_NORM))

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        """Bound the product's error, carried through the rule, and the roundings of the passes."""
        if self.part in ("clear", "scale"):
            return {name: np.zeros_like(array) for name, array in want.items()}
        product = self._product_bound(x, u)
        if self.part == "wgrad":
            return {"g": product}
        if self.rule == "norm":
            g = self.gradient(x)
            size = float((g * g).sum())
            away = NORM_LIMIT * u + (math.sqrt(float((product * product).sum()) / size) if size else 0.0)
            product = product + away * self.coefficient(g) * np.abs(g)
        unit = max(u, UNIT_ROUNDOFF["fp32"])
        passes = unit * (PASS_LIMIT + (SUM_LIMIT * math.sqrt(self.k) if self.part == "step" else 0.0))
        w = np.abs(x["w"])
        if not self.velocity:
            product *= 2 * abs(self.lr)  # twice, to include the step's rounding, which is no larger
            product += np.multiply(w, passes, out=w)
            return {"w": product}
        velocity = 2 * product + passes * np.abs(x["v"])
        way = product + self.mu * velocity if self.rule == "nesterov" else velocity
        moved = (np.abs(want["w"]) + np.abs(want["v"])).astype(np.float32)
        return {"w": abs(self.lr) * way + PASS_LIMIT * unit * (w + moved), "v": velocity}

    def _product_bound(self, x: Arrays, u: float) -> Array:
        """Return the bound of g, in single precision to halve its cost."""
        if self.part == "update":
            given: Array = np.abs(x["g"]) * u
            return given
        used = self._used(x)
        absolute: Array = np.abs(x["x"][used]).T @ np.abs(x["dy"][used])
        absolute /= self.k
        return bounds.product(absolute, self.gradient(x) if u >= bounds.COARSE else absolute, u, int(used.sum()))

    def _used(self, x: Arrays) -> Array:
        """Return the mask of samples that are not negligible."""
        sizes = np.abs(x["x"]).max(axis=1)
        used: Array = ~(sizes < NEGLIGIBLE * sizes.max())
        return used
