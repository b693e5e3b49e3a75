"""Spans of a TensorFlow program by its profiler, with rows: by scopes in graphs and under XLA.

Rows of eager operations follow from their order and from the shapes that they allocate.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import graphs  # beside this file
import hlo
import recorder
import xplane

KERNEL = re.compile(r"([\w./-]+):(_?[A-Z]\w*)$")
AROUND = ("ThunkExecutor::Execute", "EagerExecute", "TFE_Py_FastPathExecute_C")
COUNTED = re.compile(r"_\d+$")  # suffix of a scope that is entered again
UPDATES = (  # operations of an optimizer without a fused kernel
    "Mul",
    "Sub",
    "AddV2",
    "Square",
    "Sqrt",
    "RealDiv",
    "AssignVariableOp",
    "AssignAddVariableOp",
    "AssignSubVariableOp",
)
KINDS = (("Conv2D", "convolution"), ("Pool", "pooling"), ("BatchNorm", "normalization"))  # kind of work by part of name
PASSES = (
    "BiasAdd|Sigmoid|Relu|Tanh|Soft(plus|sign)|Exp|Log|Mul|Add|Sub|Neg|Abs|R?Sqrt|Square|Div|RealDiv|Maximum|Minimum"
)
PRODUCT = "MatMul|Conv2DBackprop"  # prefixes of products in a backward pass
EAGER, KERNELS = "eagerly", "in a graph"


def spans(tf: Any, run: Callable[[], object], programs: Any, layers: list[dict[str, Any]], batch: int) -> Any:
    """Run `run` and return its spans; `programs`: (function, arguments) that `run` may call."""
    profiler, modules = tf.profiler.experimental, set[str]()
    options = profiler.ProfilerOptions(host_tracer_level=2, python_tracer_level=0, device_tracer_level=0)
    traced, moment = xplane.record(
        lambda folder: profiler.start(folder, options=options), profiler.stop, profiler.Trace, run
    )
    for _, events in traced:
        modules.update(module(stats["hlo_module"]) for _, _, _, stats in events if "hlo_module" in stats)
    by_module, products = dict[str, Any](), set[tuple[str, str]]()
    for call, arguments in programs if modules else ():
        if any(f"inference_{call.python_function.__name__}_" in name for name in modules):
            text = call.experimental_get_compiler_ir(*arguments)(stage="optimized_hlo")
            by_module[hlo.module(text)] = hlo.rows(
                text, lambda instruction: row(instruction.op_name, layers), graphs.work_kinds(layers)
            )
            products.update((hlo.module(text), name) for name in hlo.products(text))
    if graphs.in_order(layers):
        eager(traced, layers, batch)
    intervals = xplane.spans(traced, operation)
    return xplane.named(
        intervals, moment, lambda what: tell(by_module, layers, what), lambda what: what in products or multiplies(what)
    )


def module(name: str) -> str:
    """Return a module's name as in its HLO, without the suffix that the trace appends."""
    return re.sub(r"XlaMust\w*", "", name)


def operation(name: str, stats: dict[str, Any]) -> Any:
    """Return an event's identity: XLA (module, instruction), kernel, name if enclosing, or None."""
    if "hlo_op" in stats:
        return module(stats.get("hlo_module", "")), stats["hlo_op"]
    if "rows" in stats:
        return EAGER, stats["rows"], stats["eager_op"]
    if name in AROUND or name == recorder.CALIBRATE or "tf_function_call" in stats:
        return name
    kernel = KERNEL.match(name)
    return (KERNELS, kernel.group(2), kernel.group(1)) if kernel and "inference_" not in name else None


def tell(by_module: dict[str, Any], layers: list[dict[str, Any]], what: Any) -> Any:
    """Return rows and column of an event; `what`: the result of `operation` for it."""
    if not isinstance(what, tuple):
        return ["framework"], None
    if what[0] == EAGER:
        return list(what[1]), column(list(what[1]), what[2])
    if what[0] == KERNELS:
        served = rows(what[2], what[1], layers)
        return served, graphs.work_kind(served, layers) or column(served, what[1])
    return by_module.get(what[0], {}).get(what[1], ([], None))


def multiplies(what: Any) -> bool:
    """Return whether a result of `operation` is a kernel of a product or a convolution."""
    kind = {EAGER: what[-1], KERNELS: what[1]}.get(what[0], "") if isinstance(what, tuple) else ""
    return "MatMul" in kind or "Conv2D" in kind


def row(name: str, layers: list[dict[str, Any]]) -> str | None:
    """Return the row of an XLA instruction by its original operation's name, or None."""
    return next(iter(rows(name, "", layers)), None)


def rows(name: str, kind: str, layers: list[dict[str, Any]]) -> list[str]:
    """Return the rows of an operation by its name in the graph, `gradient_tape/fc2/MatMul/MatMul_1`.

    `kind` is the kernel's type, which may do more than the name shows. A layer's variables are weights, then bias.
    In Keras a model has a scope (`sequential/fc2/MatMul`), and so have updates (`sgd/fc2.update/Mul`).
    """
    by_name = {layer["name"]: layer for layer in layers}
    parts = [part if part in by_name else COUNTED.sub("", part) for part in name.split("/")]
    backward, last = parts[0] == "gradient_tape", name.split("/")[-1]
    update = re.search(r"/update_(?:_(\d+))?/", name)
    if update:
        owners = [layer["name"] for layer in layers for _ in layer["parameters"]]
        return [owners[int(update.group(1) or 0)] + " update"]
    turned = kind == "Transpose" and (name.endswith("LayoutOptimizer") or len(parts) == 1)  # not in a layer's scope
    if turned or kind in ("_MklToTf", "_MklInputConversion"):
        return ["layout"]
    for at, scope in enumerate(parts):
        if scope in recorder.LOSSES:
            return ["loss"]
        if scope.endswith(".update"):
            return [scope[: -len(".update")] + " update"]
        if scope in by_name:
            what = (parts[at + 1 :] or [""])[0] if backward else last
            return _of_layer(by_name[scope], what, last, kind, backward)
    if last.startswith("AddN"):
        return ["gradient sums"]
    around = kind in ("_Arg", "_Retval", "NoOp", "Identity", "_SOURCE", "_SINK", "ReadVariableOp")
    return ["framework"] if around or (kind and len(parts) == 1) else []


def _of_layer(layer: dict[str, Any], what: Any, last: str, kind: str, backward: bool) -> list[str]:
    """Return the layer's rows of an operation `what`; `last`: the last part of its name."""
    scope = layer["name"]
    activates = re.match("Sigmoid|Relu" + "|Tanh" * (layer.get("activation") == "tanh"), what)
    if layer["kind"] in ("recurrent", "embedding"):  # whose functions are of the cell
        return [scope + (" gradient" if backward else " forward")]
    if backward:
        if activates:
            return [scope + " activation gradient"]
        if last.startswith("BiasAddGrad"):
            return [scope + " bias gradient"]
        if layer["kind"] not in graphs.PRODUCTS:
            return [scope + " gradient"]
        weights = layer["first"] or last.startswith("MatMul_1") or "BackpropFilter" in last
        return ["{} {}".format(scope, "wgrad" if weights else "dgrad")] if re.match(PRODUCT, last) else []
    if activates:
        fused = "Fused" in kind  # with the preceding product and bias
        return [scope + " activation"] + ([scope + " forward"] if fused else [])
    return [scope + " forward"]


def column(served: list[str], kind: str) -> str | None:
    """Return a kernel's kind of work; None if sampled symbols decide, as for products."""
    if not served or "MatMul" in kind:
        return None
    for part, word in KINDS:
        if part in kind:
            return word
    if kind.startswith("ResourceApply") or (served[0].endswith(" update") and kind in UPDATES):
        return "update"
    if served == ["loss"]:
        return "softmax"
    if kind == "BiasAddGrad":
        return "reduction"
    if re.match(PASSES, kind) and served != ["framework"]:
        return "element-wise"
    return "packing" if served == ["layout"] or kind == "Transpose" else None


def eager(traced: Any, layers: list[dict[str, Any]], batch: int) -> None:
    """Write the rows of eager operations, which have no scopes, into their events."""
    calls, shapes = [], []
    for _, events in traced:
        for start, end, name, stats in events:
            if stats.get("eager_op") and not stats.get("is_func"):
                calls.append((start, end, stats))
            elif name == "MemoryAllocation" and stats.get("region_type") == "output":
                words = re.findall(r"\d+", stats.get("shape", ""))
                shapes.append((start, tuple(int(word) for word in words)))
    calls.sort(key=lambda call: call[0])
    allocated = [[shape for when, shape in shapes if start <= when <= end] for start, end, _ in calls]
    kinds = [stats["eager_op"] for _, _, stats in calls]
    served = in_order([(kind, sizes[-1] if sizes else None) for kind, sizes in zip(kinds, allocated)], layers, batch)
    for (_, _, stats), names in zip(calls, served):
        stats["rows"] = tuple(names)


def in_order(calls: Any, layers: list[dict[str, Any]], batch: int) -> Any:
    """Return the rows of each (kind, allocated shape or None), in the order of a step.

    Products of a backward pass are assigned by shape; if the shape is ambiguous, dgrad comes before wgrad.
    """
    forward, backward, products, updates, losing = -1, None, 0, 0, False
    served = []
    for kind, shape in calls:
        layer = layers[backward if backward is not None else max(forward, 0)]
        if kind == "MatMul" and (backward is None or (backward == 0 and products)):
            forward = 0 if backward is not None else (forward + 1) % len(layers)
            backward, updates, losing = None, 0, False
            row = layers[forward]["name"] + " forward"
        elif kind == "MatMul":
            x, w = (batch, layer["inputs"]), (layer["inputs"], layer["outputs"])
            weights = shape == w if shape in (x, w) and x != w else bool(products)
            products += 1
            row = layer["name"] + (" wgrad" if weights or layer["first"] else " dgrad")
        elif kind == "BiasAdd":
            row = layer["name"] + " forward"
        elif kind in ("Sigmoid", "Relu", "Tanh"):
            row = layer["name"] + " activation"
        elif kind in ("SigmoidGrad", "ReluGrad", "TanhGrad"):
            row = layers[backward - 1]["name"] + " activation gradient" if backward else None
        elif kind == "BiasAddGrad":
            backward, products, losing = len(layers) - 1 if backward is None else backward - 1, 0, False
            row = layers[backward]["name"] + " bias gradient"
        elif kind.startswith("ResourceApply"):
            row = layers[min(updates // 2, len(layers) - 1)]["name"] + " update"
            forward, backward, updates = -1, None, updates + 1
        else:
            losing = losing or kind == "SparseSoftmaxCrossEntropyWithLogits"
            row = "loss" if losing else "framework"
        served.append([row] if row else [])
    return served
