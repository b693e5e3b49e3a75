"""Layers of sequences in NumPy: embedding, recurrent cells, means over steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy_layers import Layer, aligned, flat

CELL = "recurrent cell"  # column of all work of a recurrent layer


class Embedding(Layer):
    """Rows of a table; the gradient is as large as the table, as frameworks have it."""

    def forward(self, inputs: list[Any]) -> Any:
        self.ids = inputs[0].reshape(-1)
        self.do(self.row("forward"), "embedding", np.take, self.weight("weight"), self.ids, 0, flat(self.z))
        return self.z

    def backward(self, dz: Any) -> list[Any]:
        self.do(self.row("gradient"), "embedding", self._scatter, flat(dz), self.grad("weight"))
        return [None]

    def _scatter(self, dz: Any, grad: Any) -> None:
        order = slice(None) if self.model.order is None else self.model.order(len(dz))
        grad[...] = 0
        np.add.at(grad, self.ids[order], dz[order])


class Mean(Layer):
    """Mean over steps, of those alone whose id is not 0 if ids are given."""

    def forward(self, inputs: list[Any]) -> Any:
        batch, steps, _ = inputs[0].shape
        self.share = np.full((batch, steps), 1 / steps, np.float32)
        if len(inputs) > 1:
            real = self.real(inputs[1])
            self.share[...] = real / np.maximum(real.sum(axis=1, keepdims=True), 1)
        self.do(self.row("forward"), "reduction", self._forward, inputs[0])
        return self.z

    def real(self, ids: Any) -> Any:
        """Return which steps are no padding."""
        return ids != 0

    def _forward(self, x: Any) -> None:
        order = slice(None) if self.model.order is None else self.model.order(x.shape[1])
        np.sum((x * self.share[..., None])[:, order], axis=1, out=self.z)

    def backward(self, dz: Any) -> Any:
        if self.dx[0] is not None:
            row = self.row("gradient")
            self.do(row, "element-wise", np.multiply, dz[:, None], self.share[..., None], out=self.dx[0])
        return [self.dx[0], None]


def sigmoid(x: Any) -> Any:
    """Overwrite numbers with their sigmoid."""
    np.multiply(x, np.float32(-1), out=x)  # NumPy 2.4's negative is wrong in place at a stride of four numbers
    np.exp(x, out=x)
    x += np.float32(1)
    return np.reciprocal(x, out=x)


class Recurrent(Layer):
    """A recurrent layer: products with all inputs at once, and with the state in each step."""

    gates = 1
    inside = False  # whether the second bias is inside the reset gate

    def __init__(self, model: Any, spec: dict[str, Any], reverse: bool = False) -> None:
        super().__init__(model, spec)
        (steps, _), self.hidden = spec["in"][0], spec["hidden"]
        wide = (self.batch, steps, self.gates * self.hidden)
        self.sums, self.below = aligned(wide), aligned(wide)  # of gates, later their gradients: of all, of the state's
        self.states, self.before = aligned((self.batch, steps, self.hidden)), aligned((self.batch, steps, self.hidden))
        self.product, self.slope = aligned((self.batch, wide[2])), aligned((self.batch, self.hidden))
        self.steps, self.prefix = range(steps)[:: -1 if reverse else 1], "reverse_" * reverse
        self.end, self.begins = -1, np.zeros_like(self.slope)  # which step's state is the last; the first state
        if spec["carried"]:
            self.state[self.name + ".h"] = self.begins

    def weight(self, name: str) -> Any:
        return super().weight(self.prefix + name)

    def grad(self, name: str) -> Any:
        return super().grad(self.prefix + name)

    def gate(self, of: Any, i: int) -> Any:
        """Return a view of gate i's columns."""
        return of[..., i * self.hidden : (i + 1) * self.hidden]

    def multiply(self, role: str, a: Any, b: Any, out: Any) -> None:
        self.model.dot(self.row(role), a, b, out, CELL)

    def forward(self, inputs: list[Any]) -> Any:
        self.x = flat(inputs[0])
        self.multiply("forward", self.x, self.weight("weight"), flat(self.sums))
        self.do(self.row("forward"), CELL, self._begin)
        h = self.begins
        for t in self.steps:
            self.before[:, t] = h
            self.state_product(h)
            self.do(self.row("forward"), CELL, self.cell, t, self.sums[:, t], h)
            h = np.ascontiguousarray(self.states[:, t])
        np.copyto(self.z, self.states[:, self.steps[self.end]] if self.spec["last"] else self.states)
        return self.z

    def keep(self) -> None:
        if self.spec["carried"]:
            np.copyto(self.begins, self.states[:, self.steps[-1]])

    def state_product(self, h: Any) -> None:
        self.multiply("forward", h, self.weight("recurrent"), self.product)

    def _begin(self) -> None:
        self.sums += self.weight("bias")
        if "state_bias" in self.spec["parameters"] and not self.inside:
            self.sums += self.weight("state_bias")

    def backward(self, dz: Any) -> Any:
        self.begin_backward()
        dh = np.zeros_like(self.slope)
        for t in reversed(self.steps):
            if not self.spec["last"]:
                dh += dz[:, t]
            elif t == self.steps[self.end]:
                dh += dz
            rest = self.do(self.row("gradient"), CELL, self.back, t, dh)
            self.state_gradient(t)
            dh = np.add(self.slope, rest, out=dh) if rest is not None else self.slope.copy()
        sums, below = flat(self.sums), flat(self.below if self.inside else self.sums)
        self.multiply("gradient", self.x.T, sums, self.grad("weight"))
        self.recurrent_gradient(flat(self.before), below)
        self.do(self.row("gradient"), CELL, sums.sum, axis=0, out=self.grad("bias"))
        if "state_bias" in self.spec["parameters"]:
            self.do(self.row("gradient"), CELL, below.sum, axis=0, out=self.grad("state_bias"))
        if self.dx[0] is not None:
            self.multiply("gradient", sums, self.weight("weight").T, flat(self.dx[0]))
        return self.dx

    def begin_backward(self) -> None:
        """Start the gradients."""

    def state_gradient(self, t: int) -> None:
        below = np.ascontiguousarray((self.below if self.inside else self.sums)[:, t])
        self.multiply("gradient", below, self.weight("recurrent").T, self.slope)

    def recurrent_gradient(self, before: Any, below: Any) -> None:
        self.multiply("gradient", before.T, below, self.grad("recurrent"))

    def cell(self, t: int, sums: Any, h: Any) -> None:
        np.tanh(sums + self.product, out=self.states[:, t])

    def back(self, t: int, dh: Any) -> Any:
        """Write the gradients of a step's sums; return the state's that go around the product, or None."""
        np.multiply(dh, 1 - self.states[:, t] ** 2, out=self.sums[:, t])


class Lstm(Recurrent):
    gates = 4

    def __init__(self, model: Any, spec: dict[str, Any], reverse: bool = False) -> None:
        super().__init__(model, spec, reverse)
        self.memory, self.top = aligned(self.states.shape), aligned(self.states.shape)
        self.begins_memory = np.zeros_like(self.slope)
        if spec["carried"]:
            self.state[self.name + ".c"] = self.begins_memory

    def keep(self) -> None:
        super().keep()
        if self.spec["carried"]:
            np.copyto(self.begins_memory, self.memory[:, self.steps[-1]])

    def cell(self, t: int, sums: Any, h: Any) -> None:
        sums += self.product
        i, f, g, o = (self.gate(sums, at) for at in range(4))
        f += np.float32(self.spec["forget"])
        for gate in (i, f, o):
            sigmoid(gate)
        np.tanh(g, out=g)
        np.multiply(i, g, out=self.memory[:, t])
        self.memory[:, t] += f * self.earlier(t)
        np.tanh(self.memory[:, t], out=self.top[:, t])
        np.multiply(o, self.top[:, t], out=self.states[:, t])

    def earlier(self, t: int) -> Any:
        """Return the memory before step t."""
        before = t - self.steps.step
        return self.memory[:, before] if before in self.steps else self.begins_memory

    def begin_backward(self) -> None:
        self.dc = np.zeros_like(self.slope)

    def back(self, t: int, dh: Any) -> Any:
        i, f, g, o = (self.gate(self.sums[:, t], at) for at in range(4))
        top, memory = self.top[:, t], self.earlier(t)
        self.dc += dh * o * (1 - top * top)
        di, dg = self.dc * g * i * (1 - i), self.dc * i * (1 - g * g)
        df, do = self.dc * memory * f * (1 - f), dh * top * o * (1 - o)
        self.dc *= f
        for gate, gradient in zip((i, f, g, o), (di, df, dg, do)):
            gate[...] = gradient


class Gru(Recurrent):
    """GRU whose reset comes after the product with the state, and its bias."""

    gates, inside = 3, True

    def cell(self, t: int, sums: Any, h: Any) -> None:
        self.product += self.weight("state_bias")
        sums[:, : 2 * self.hidden] += self.product[:, : 2 * self.hidden]
        r, z, n = (self.gate(sums, at) for at in range(3))
        sigmoid(r), sigmoid(z)
        m = self.gate(self.product, 2)
        self.gate(self.below[:, t], 2)[...] = m
        n += r * m
        np.tanh(n, out=n)
        np.add((1 - z) * n, z * h, out=self.states[:, t])

    def back(self, t: int, dh: Any) -> Any:
        r, z, n = (self.gate(self.sums[:, t], at) for at in range(3))
        m, rest = self.gate(self.below[:, t], 2), dh * z
        dn = dh * (1 - z) * (1 - n * n)
        dz = dh * (self.before[:, t] - n) * z * (1 - z)
        dr, dm = dn * m * r * (1 - r), dn * r
        for gate, gradient in zip((r, z, n), (dr, dz, dn)):
            gate[...] = gradient
        for at, gradient in enumerate((dr, dz, dm)):
            self.gate(self.below[:, t], at)[...] = gradient
        return rest


class GruBefore(Recurrent):
    """GRU whose reset comes before the product with the state, as first published."""

    gates = 3

    def __init__(self, model: Any, spec: dict[str, Any], reverse: bool = False) -> None:
        super().__init__(model, spec, reverse)
        self.kept = aligned(self.states.shape)  # states times resets

    def _begin(self) -> None:
        """Split the recurrent weights into those of both gates, and of the new state."""
        super()._begin()
        weights, both = self.weight("recurrent"), 2 * self.hidden
        self.split = np.ascontiguousarray(weights[:, :both]), np.ascontiguousarray(weights[:, both:])

    def state_product(self, h: Any) -> None:
        """Leave the products to the cell, which needs the reset for the second."""

    def cell(self, t: int, sums: Any, h: Any) -> None:
        gates, new = self.split
        r, z, n = (self.gate(sums, at) for at in range(3))
        sums[:, : 2 * self.hidden] += h @ gates
        sigmoid(r), sigmoid(z)
        self.kept[:, t] = r * h
        n += np.ascontiguousarray(self.kept[:, t]) @ new
        np.tanh(n, out=n)
        np.add((1 - z) * n, z * h, out=self.states[:, t])

    def back(self, t: int, dh: Any) -> Any:
        gates, new = self.split
        (r, z, n), before = (self.gate(self.sums[:, t], at) for at in range(3)), self.before[:, t]
        dn = dh * (1 - z) * (1 - n * n)
        dm, dz = dn @ new.T, dh * (before - n) * z * (1 - z)
        dr, rest = dm * before * r * (1 - r), dh * z + dm * r
        for gate, gradient in zip((r, z, n), (dr, dz, dn)):
            gate[...] = gradient
        return rest + np.ascontiguousarray(self.sums[:, t, : 2 * self.hidden]) @ gates.T

    def state_gradient(self, t: int) -> None:
        """Add nothing: the cell's gradient includes all that the state has."""
        self.slope[...] = 0

    def recurrent_gradient(self, before: Any, below: Any) -> None:
        both, kept = 2 * self.hidden, flat(self.kept)
        gradient = np.concatenate((before.T @ below[:, :both], kept.T @ below[:, both:]), axis=1)
        np.copyto(self.grad("recurrent"), gradient)


CELLS: dict[str, type[Recurrent]] = {"lstm": Lstm, "gru": Gru, "gru-before": GruBefore, "rnn": Recurrent}


class Bidirectional(Layer):
    """Two layers, one of them from the last step to the first, with their states side by side."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        single = dict(spec, out=[*spec["out"][:-1], spec["hidden"]])
        self.ways = [CELLS[spec["cell"]](model, single, reverse) for reverse in (False, True)]

    def forward(self, inputs: list[Any]) -> Any:
        states = [way.forward(inputs) for way in self.ways]
        return self.do(self.row("forward"), CELL, np.concatenate, states, axis=-1, out=self.z)

    def backward(self, dz: Any) -> Any:
        ends = np.split(dz, 2, axis=-1)
        gradients = [way.backward(np.ascontiguousarray(end))[0] for way, end in zip(self.ways, ends)]
        if self.dx[0] is not None:
            self.do(self.row("gradient"), CELL, np.add, *gradients, out=self.dx[0])
        return self.dx


def recurrent(model: Any, spec: dict[str, Any]) -> Layer:
    return Bidirectional(model, spec) if spec["bidirectional"] else CELLS[spec["cell"]](model, spec)


KINDS: dict[str, Any] = {"embedding": Embedding, "mean": Mean, "recurrent": recurrent}
