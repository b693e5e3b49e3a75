"""Rows and kinds of work of PyTorch's operations, in a chain of dense layers.

An event is a dict of `name`, `within` (index of the enclosing event, or None), `sequence` (autograd's sequence number,
or -1) and `shapes` (of its inputs; [] if not a tensor). Events are in order of their start, from the profiler or from a
recording. Layers are recognized by the order of the forward products, gradients by autograd's sequence numbers,
products inside a gradient by shape and then by order, updates by the order of the parameters. If several rows remain
possible, all are returned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NODE = "autograd::engine::evaluate_function: "
FRAMEWORK, LOSS, FREED = ["framework"], ["loss"], ["free gradients"]
PRODUCTS = ("linear", "addmm", "matmul", "mm")
ACTIVATIONS = ("sigmoid", "relu", "tanh")
DERIVATIVES = ("SigmoidBackward0", "ReluBackward0", "ThresholdBackward0", "TanhBackward0")
GRADIENTS = {"AddmmBackward0": ("dgrad", "wgrad"), "MmBackward0": ("wgrad", "dgrad")}  # in autograd's order
LOSS_NODES = ("NllLossBackward0", "LogSoftmaxBackward0", "BinaryCrossEntropyWithLogitsBackward0", "MseLossBackward0")
LOSSES = (
    *("cross_entropy_loss", "log_softmax", "_log_softmax", "nll_loss_nd", "nll_loss", "nll_loss_forward"),
    *("binary_cross_entropy_with_logits", "mse_loss"),
)
KINDS = {
    "gemm": "mm addmm bmm",
    "element-wise": "sigmoid relu tanh clamp_min sigmoid_backward threshold_backward tanh_backward "
    "nll_loss_backward add add_ mul mul_ div_",
    "reduction": "sum nll_loss_forward",
    "softmax": "_log_softmax _log_softmax_backward_data mse_loss mse_loss_backward binary_cross_entropy_with_logits",
    "random numbers": "bernoulli_",
    "copy": "copy_ clone",
    "clear": "fill_ zero_",
}
COLUMNS = {name: column for column, names in KINDS.items() for name in names.split()}
MULTIPLY = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm")
CONVOLVE = ("aten::convolution", "aten::convolution_backward")
UPDATES = (
    *("mul_", "add_", "sub_", "addcmul_", "addcdiv_", "lerp_", "sqrt_", "div_"),
    *("clone", "mul", "add", "sqrt", "div"),
)


def align(events: list[dict[str, Any]], batch: int, layers: list[tuple[str, int, int]], parameters: Any) -> list[Any]:
    """Return (rows, column) of each event.

    `layers`: (name, inputs, outputs) in order; `parameters`: (layer, shape) in the optimizer's order.
    """
    return _Alignment(events, batch, layers, parameters).assigned


def product(name: str, rows: list[str]) -> float:
    """Return the share of each row's products that an operation computes.

    A GEMM with several possible rows computes just one of them; a convolution call computes all its gradients.
    """
    if name in CONVOLVE:
        return 1.0
    return 1.0 / max(1, len(rows)) if name in MULTIPLY else 0.0


class _Alignment:
    def __init__(
        self, events: list[dict[str, Any]], batch: int, layers: list[tuple[str, int, int]], parameters: Any
    ) -> None:
        self.events, self.batch, self.layers, self.parameters = events, batch, layers, parameters
        self.names = [name for name, _, _ in layers]
        self.inside: list[list[int]] = [[] for _ in events]
        for i, event in enumerate(events):
            if event["within"] is not None:
                self.inside[event["within"]].append(i)
        self.forwards = 0  # number of forward products so far
        self.linked: dict[int, Any] = {}  # {sequence number: index of its layer}
        self.nodes: dict[int, str | None] = {}  # {event: enclosing autograd node}
        self.given: dict[int, tuple[list[str], str]] = {}  # {event: rows assigned by its enclosing event}
        self.behind = len(layers) - 1  # in a compiled gradient: the layer whose output gradient came last
        self.products: list[list[str]] = []  # of a compiled gradient: possible rows of each product
        self.summed: list[str] = []  # of a compiled gradient: the bias gradients
        self.assigned: list[tuple[list[str], str | None]] = []
        for i in range(len(events)):
            self.assigned.append(self._event(i))
        self._settle()

    def _event(self, i: int) -> tuple[list[str], str | None]:
        event = self.events[i]
        name, within = event["name"], event["within"]
        short = name[6:] if name.startswith("aten::") else name
        around = self.assigned[within][0] if within is not None else []
        node = self.nodes[i] = name if name.startswith(NODE) else self.nodes.get(within)
        column = COLUMNS.get(short)
        if name.startswith("Optimizer.zero_grad"):
            return FREED, None
        if name.startswith("Optimizer.step"):
            self._updates(i)
            return FRAMEWORK, None
        if short.startswith(("_foreach_", "_fused_")):
            self._updates(i)
            return [layer + " update" for layer in dict.fromkeys(x for x, _ in self.parameters)], "update"
        if i in self.given:
            return self.given[i]
        if "cpp_fused" in name:
            return self._kernel(name, node)
        if node is not None:
            return self._backward(i, short, node[len(NODE) :], around, column)
        return self._forward(event, short, around, column)

    def _forward(self, event: Any, short: str, around: Any, column: str | None) -> tuple[list[str], str | None]:
        if short in PRODUCTS and not self._words(around, "forward") and not self._repeated(event["shapes"]):
            self.forwards += 1
        layer = (self.forwards - 1) % len(self.names)
        if short in PRODUCTS or (short == "add" and self._adds_bias(event["shapes"], layer)):
            self.linked[event["sequence"]] = layer
            return [self.names[layer] + " forward"], column
        if short in ACTIVATIONS:
            self.linked[event["sequence"]] = layer
            return [self.names[layer] + " activation"], column
        return self._outside(short, around, column)

    def _outside(self, short: str, around: Any, column: str | None) -> tuple[list[str], str | None]:
        """Return rows and column of an operation outside layers: loss, enclosing rows, or framework."""
        if short in LOSSES or (short == "ones_like" and not around):
            return LOSS, column
        if column == "element-wise" and self._words(around, "update"):
            column = "update"
        return around or FRAMEWORK, column

    def _repeated(self, shapes: list[list[int]]) -> bool:
        """Return whether a product repeats the last layer's, as in a hook: its sizes fit only that layer."""
        fits = [self._multiplies(shapes, x % len(self.layers)) for x in (self.forwards, self.forwards - 1)]
        return self.forwards > 0 and fits == [False, True]

    def _multiplies(self, shapes: list[list[int]], layer: int) -> bool:
        _, inputs, outputs = self.layers[layer]
        sizes = [list(shape) for shape in shapes]
        return [self.batch, inputs] in sizes and ([inputs, outputs] in sizes or [outputs, inputs] in sizes)

    def _adds_bias(self, shapes: list[list[int]], layer: int) -> bool:
        outputs = self.layers[layer][2]
        return [list(shape) for shape in shapes[:2]] == [[self.batch, outputs], [outputs]]

    @staticmethod
    def _words(rows: list[str], what: Any) -> list[Any]:
        return [row for row in rows if row.endswith(" " + what)]

    def _backward(self, i: int, short: str, node: Any, around: Any, column: str | None) -> tuple[list[str], str | None]:
        """Return rows and column of an operation in backward; a node's exclusive time is the framework's."""
        if self.events[i]["name"].startswith(NODE):
            if node == "CompiledFunctionBackward":
                self._settle()
                self.behind, self.summed = len(self.names) - 1, []
            return FRAMEWORK, None
        layer = self.linked.get(self._sequence(i))
        if node in LOSS_NODES:
            return LOSS, column
        if node in DERIVATIVES:
            return ([self.names[layer] + " activation gradient"] if layer is not None else []), column
        if node in GRADIENTS and short == "mm":
            return self._product(i, layer, GRADIENTS[node]), column
        if node in ("AddmmBackward0", "AddBackward0") and short == "sum":
            return ([self.names[layer] + " bias gradient"] if layer is not None else []), column
        if node == "CompiledFunctionBackward" and short == "mm":
            return self._compiled(self.events[i]["shapes"]), column
        return around or FRAMEWORK, column

    def _sequence(self, i: int) -> int:
        while not self.events[i]["name"].startswith(NODE):
            i = self.events[i]["within"]
        return int(self.events[i]["sequence"])

    def _fits(self, shapes: list[list[int]], layer: int) -> list[str]:
        """Return the roles, dgrad or wgrad, that a layer's product of these shapes can have."""
        _, inputs, outputs = self.layers[layer]
        sizes = [list(shape) for shape in shapes[:2]]
        fits = []
        if sizes == [[self.batch, outputs], [outputs, inputs]]:
            fits.append("dgrad")
        first, last = self._stored(layer)
        if sizes == [[first, self.batch], [self.batch, last]]:
            fits.append("wgrad")
        return fits

    def _stored(self, layer: int) -> tuple[int, ...]:
        """Return the stored shape of a layer's weights: (outputs, inputs), or (inputs, outputs) in Keras."""
        name, inputs, outputs = self.layers[layer]
        stored = [tuple(shape) for owner, shape in self.parameters if owner == name and len(shape) == 2]
        return stored[0] if stored else (outputs, inputs)

    def _product(self, i: int, layer: int | None, order: Any) -> list[str]:
        if layer is None:
            return []
        beside = [x for x in self.inside[self.events[i]["within"]] if self.events[x]["name"] == "aten::mm"]
        by_order = "wgrad" if len(beside) == 1 else order[beside.index(i) % 2]
        fits = self._fits(self.events[i]["shapes"], layer)
        if not fits:  # the shapes fit none of this layer's gradients
            return []
        return [f"{self.names[layer]} {by_order if by_order in fits else fits[0]}"]

    def _compiled(self, shapes: list[list[int]]) -> list[str]:
        """Return the rows that a product of a compiled gradient can be, by its shapes and order."""
        can = [(x, "wgrad") for x in range(self.behind, len(self.names))]
        can += [(self.behind, "dgrad")] if self.behind else []
        rows = [f"{self.names[x]} {what}" for x, what in can if what in self._fits(shapes, x)]
        rows = [row for row in rows if [row] not in self.products]
        self.products.append(rows)
        return rows

    def _settle(self) -> None:
        """Remove rows of unambiguous products from the candidates of this gradient's other products."""
        settled = [rows[0] for rows in self.products if len(rows) == 1]
        for rows in self.products:
            if len(rows) > 1:
                rows[:] = [row for row in rows if row not in settled] or rows
        self.products = []

    def _kernel(self, name: str, node: Any) -> tuple[list[str], str | None]:
        """Return the rows of an inductor kernel by its name; derivatives come in order from the last layer."""
        rows, layer, softmax = [], (self.forwards - 1) % len(self.names), "log_softmax" in name
        if node is None:
            rows += [self.names[layer] + " activation"] if any(x in name for x in ACTIVATIONS) else []
            rows += LOSS if softmax or "nll_loss" in name else []
        else:
            rows += LOSS if softmax or "nll_loss_backward" in name else []
            if any(x in name for x in ("sigmoid_backward", "threshold_backward", "tanh_backward")):
                self.behind = max(0, self.behind - 1)
                rows += [self.names[self.behind] + " activation gradient"]
                rows += self._biases([self.behind]) if "_sum_" in name else []
            elif "_sum_" in name:
                rows += self._biases([len(self.names) - 1] if rows else range(self.behind, len(self.names)))
        return rows, "softmax" if softmax else "element-wise"

    def _biases(self, layers: Iterable[int]) -> list[str]:
        """Return these layers' bias gradients that are not assigned yet."""
        rows = [self.names[x] + " bias gradient" for x in layers]
        rows = [row for row in rows if row not in self.summed]
        self.summed += rows
        return rows

    def _updates(self, i: int) -> None:
        """Assign rows to an optimizer's operations by the order of its parameters, checked by their shapes."""
        inside = self.inside[i]
        names = [self.events[x]["name"][len("aten::") :] for x in inside]
        updates = [x for x, name in zip(inside, names) if name in UPDATES and self.events[x]["shapes"]]
        share = len(updates) // max(1, len(self.parameters))
        ordered = share > 0 and len(updates) == share * len(self.parameters)
        for k, x in enumerate(updates):
            size = list(self.events[x]["shapes"][0])
            rows = [layer + " update" for layer, shape in self.parameters if list(shape) == size]
            if ordered and size in ([], list(self.parameters[k // share][1])):  # []: adam's step counts
                rows = [self.parameters[k // share][0] + " update"]
            self.given[x] = rows, "update"
