"""Spans of a JAX program by its profiler, with rows by the scopes in its compiled programs.

A layer's scope bears its name; its activation has its own scope, `fc1 activation`, or lies `inside` the layer's, as in
Keras. Updates have scopes `fc1 update`, or `fc1.update` under Keras.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import graphs  # beside this file
import hlo
import recorder
import xplane

SCOPE = re.compile(r"((?:\w+\()*)([^()]*)")
DERIVATIVE = ("sub", "mul", "gt", "select_n")  # an activation's derivative, which JAX computes in the forward pass
PRODUCT = ("dot_general", "add")  # the bias too


def spans(
    jax: Any, run: Callable[[], object], programs: Any, layers: list[dict[str, Any]], batch: int, inside: bool = False
) -> list[dict[str, Any]]:
    """Return the spans of `run`; `programs`: (jitted function, arguments) of all that it may call."""
    options, profiler = jax.profiler.ProfileOptions(), jax.profiler
    options.python_tracer_level = 0
    start = partial(profiler.start_trace, profiler_options=options)
    traced, moment = xplane.record(start, profiler.stop_trace, profiler.TraceAnnotation, run)
    ran = {stats.get("hlo_module") for _, events in traced for _, _, _, stats in events}
    by_module, products = dict[str, Any](), set[tuple[str, str]]()
    for call, arguments in programs:
        if "jit_" + call.__name__ in ran:
            text = call.lower(*arguments).compile().as_text()
            tells, work_kinds = (lambda instruction: row(instruction, layers, batch, inside)), graphs.work_kinds(layers)
            by_module[hlo.module(text)] = hlo.rows(text, tells, work_kinds)
            products.update((hlo.module(text), name) for name in hlo.products(text))
    return xplane.named(
        xplane.spans(traced, operation), moment, lambda what: tell(by_module, what), lambda what: what in products
    )


def operation(name: str, stats: dict[str, Any]) -> Any:
    """Return an event's (module, instruction), or the name of what surrounds instructions, or None."""
    if "hlo_op" in stats:
        return stats.get("hlo_module"), stats["hlo_op"]
    if name == recorder.CALIBRATE or name == "ThunkExecutor::Execute" or name.startswith("PjitFunction("):
        return name
    return None


def tell(by_module: dict[str, Any], what: Any) -> Any:
    """Return rows and column of what `operation` returned."""
    if isinstance(what, tuple):
        module, name = what
        return by_module.get(module, {}).get(name, ([], None))
    return ["framework"], None


def row(instruction: Any, layers: list[dict[str, Any]], batch: int, inside: bool = False) -> str | None:
    """Return an instruction's row by its scope, `jit(_update)/transpose(jvp(fc1))/dot_general`, or None."""
    parts = instruction.op_name.split("/")
    last = parts[-1]
    for part in parts[1:]:  # the first is the program's name
        around, scope = SCOPE.findall(part)[0]
        backward = "transpose(" in around
        if scope in recorder.LOSSES:
            return "loss"
        if scope.endswith((" update", ".update")):
            return f"{scope[: -len(' update')]} update"
        derives = backward or ("jvp(" in around and last in DERIVATIVE)
        for layer in layers:
            if scope == layer["name"] + " activation":
                return f"{scope} gradient" if derives else f"{scope}"
            if scope == layer["name"]:
                activates = inside and layer["activation"] != "none"
                if last == "add_any":
                    return graphs.joined(layer, layers)
                if layer["kind"] not in graphs.PRODUCTS:
                    return "{} {}".format(scope, "gradient" if backward else "forward")
                if backward and instruction.opcode in ("dot", "convolution"):
                    role = hlo.product(layer, instruction, batch)
                else:
                    role = _role(last, instruction.opcode, backward, derives, activates)
                return role and f"{scope} {role}"
    return None


def _role(last: str, opcode: str, backward: bool, derives: bool, activates: bool) -> str | None:
    """Return the role of an instruction in a layer's scope, unless it is a product of the backward pass."""
    if backward and (last.startswith("reduce") or last == "transpose"):
        return "wgrad" if last == "transpose" else "bias gradient"
    if not backward and (last in PRODUCT or opcode == "dot"):
        return "forward"
    if activates:
        return "activation gradient" if derives else "activation"
    return None if backward else "forward"
