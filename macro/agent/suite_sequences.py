"""Layers of sequences by the suite's kernels: embeddings, and recurrent layers of one direction or both."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy_images
import numpy_layers
import numpy_sequences
import suite_layers
from numpy_layers import aligned, flat
from numpy_sequences import CELL

from kernels.ops.gather.problem import Gather
from kernels.ops.recurrent import native, onednn
from kernels.ops.recurrent.problem import Recurrent as Problem

PASSES = {"c-batched": native.passes, "onednn": onednn.passes}  # variants in two launches, forward and gradients
TURNED = ("weight", "recurrent")  # stored as the kernels take them, gates x inputs


class Embedding(numpy_sequences.Embedding):
    """Embedding by `micro.gather`'s kernels: a lookup, and a scatter into a table of zeros."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        if model.products.on_gpu:
            raise NotImplementedError("kernels-only has no layers of sequences on a GPU")
        self.bound = suite_layers.Bound(model.products, alone=True)

    def forward(self, inputs: list[Any]) -> Any:
        self.ids = inputs[0].reshape(-1)
        self._gather("forward", "lookup", [self.ids, flat(self.z), self.weight("weight")])
        return self.z

    def backward(self, dz: Any) -> list[Any]:
        self._gather("gradient", "scatter", [self.ids, flat(dz), self.grad("weight")])
        return [None]

    def _gather(self, role: str, does: str, arrays: list[Any]) -> None:
        rows, width = self.weight("weight").shape
        problem = lambda: Gather(rows, width, self.ids.size, does=does, order="text")  # noqa: E731
        self.do(self.row(role), "embedding", self.bound(does, problem, arrays))


class Way:
    """One direction of a recurrent layer: its operands in the kernels' layouts, and both launches."""

    def __init__(self, layer: Any, reverse: bool) -> None:
        (steps, inputs), hidden, spec = layer.spec["in"][0], layer.spec["hidden"], layer.spec
        self.layer, self.reverse, self.prefix = layer, reverse, "reverse_" * reverse
        self.problem = Problem(steps, layer.batch, inputs, hidden, spec["cell"], "ntc", "step")
        self.names = [x.name for x in self.problem.operands()]
        self.arrays = {x.name: aligned(x.shape) for x in self.problem.operands() if x.name not in "wr"}
        self.arrays.update(w=self.parameter("weight"), r=self.parameter("recurrent"))
        chosen = layer.model.products.fastest(self.problem)
        bind = PASSES[chosen](self.problem, layer.model.products.device, layer.model.products.setting)
        self.forward, self.gradient = (launch.call for launch in bind([self.arrays[name] for name in self.names]))

    def parameter(self, name: str) -> Any:
        return self.layer.weight(self.prefix + name)

    def in_time(self, sequence: Any) -> Any:
        """Return a view of a sequence in this direction's order of steps."""
        return sequence[:, ::-1] if self.reverse else sequence

    def begin(self, x: Any) -> None:
        """Copy inputs and biases to the operands."""
        np.copyto(self.arrays["x"], self.in_time(x))
        gates, hidden = self.problem.gates, self.problem.hidden
        b = self.arrays["b"][0]
        b[: gates * hidden] = self.parameter("bias")
        if self.layer.spec["forget"]:
            b[hidden : 2 * hidden] += np.float32(self.layer.spec["forget"])
        if self.layer.spec["biases"] == 2:
            more, inside = self.parameter("state_bias"), self.problem.cell == "gru"
            shared = 2 * hidden if inside else gates * hidden
            b[:shared] += more[:shared]
            b[gates * hidden :] = more[shared:]

    def end(self) -> None:
        """Copy the gradients of weights and biases from the operands."""
        wide, split, (db,) = self.problem.gates * self.problem.hidden, 2 * self.problem.hidden, self.arrays["db"]
        inside = np.concatenate((db[:split], db[wide:])) if db.size > wide else db
        gradients = {
            "weight": self.arrays["dw"],
            "recurrent": self.arrays["dr"],
            "bias": db[:wide],
            "state_bias": inside,
        }
        for name, array in gradients.items():
            if name in self.layer.spec["parameters"]:
                np.copyto(self.layer.grad(self.prefix + name), array)


class Recurrent(numpy_layers.Layer):
    """Recurrent layer by the fastest variant of `micro.lstm` that has its gradients as a launch of their own."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        if model.products.on_gpu:
            raise NotImplementedError("kernels-only has no layers of sequences on a GPU")
        if spec["carried"]:
            raise NotImplementedError("kernels-only's recurrent layers start from a state of zeros")
        self.ways = [Way(self, reverse) for reverse in (False, True)[: 1 + spec["bidirectional"]]]

    def forward(self, inputs: list[Any]) -> Any:
        row, hidden = self.row("forward"), self.spec["hidden"]
        for at, way in enumerate(self.ways):
            self.do(row, CELL, way.begin, inputs[0])
            self.do(row, CELL, way.forward)
            states = way.arrays["y"][:, -1] if self.spec["last"] else way.in_time(way.arrays["y"])
            self.do(row, CELL, np.copyto, self.z[..., at * hidden : (at + 1) * hidden], states)
        return self.z

    def backward(self, dz: Any) -> Any:
        row, hidden = self.row("gradient"), self.spec["hidden"]
        for at, way in enumerate(self.ways):
            part = dz[..., at * hidden : (at + 1) * hidden]
            to = way.arrays["dy"][:, -1] if self.spec["last"] else way.in_time(way.arrays["dy"])
            self.do(row, CELL, np.copyto, to, part)
            self.do(row, CELL, way.gradient)
            self.do(row, CELL, way.end)
        if self.dx[0] is not None:
            given = [way.in_time(way.arrays["dx"]) for way in self.ways]
            self.do(row, CELL, np.add, *given, self.dx[0]) if given[1:] else np.copyto(self.dx[0], given[0])
        return self.dx


BUILDERS = {"embedding": Embedding, "mean": numpy_sequences.Mean, "recurrent": Recurrent}
KINDS = {
    kind: suite_layers.activated(builder)
    for kind, builder in {**numpy_images.KINDS, **suite_layers.BUILDERS, **BUILDERS}.items()
}
