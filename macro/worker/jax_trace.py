"""Spans of a JAX program by its profiler, and their rows by the scopes in its compiled programs.

Standard library and jax alone, in the style of Python 3.6. A layer's scope bears its name; its activation has its own
scope, `fc1 activation`, or lies `inside` the layer's, as in Keras. Updates have scopes `fc1 update`, or `fc1.update`
under Keras.
"""

import re

import graphs  # beside this file
import hlo
import recorder
import xplane

SCOPE = re.compile(r"((?:\w+\()*)([^()]*)")
DERIVATIVE = ("sub", "mul", "gt", "select_n")  # an activation's derivative, which JAX computes in the forward pass
PRODUCT = ("dot_general", "add")  # the bias too


def starter(jax):
    """Return a function that starts JAX's profiler in a folder, without spans of Python."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    return lambda folder: jax.profiler.start_trace(folder, profiler_options=options)


def spans(jax, run, programs, layers, batch, inside=False):
    """Return the spans of `run`; `programs`: (jitted function, arguments) of all that it may call."""
    traced, moment = xplane.record(starter(jax), jax.profiler.stop_trace, jax.profiler.TraceAnnotation, run)
    ran = set(stats.get("hlo_module") for _, events in traced for _, _, _, stats in events)
    by_module, products = {}, set()
    for call, arguments in programs:
        if "jit_" + call.__name__ in ran:
            text = call.lower(*arguments).compile().as_text()
            tells, work_kinds = (lambda instruction: row(instruction, layers, batch, inside)), graphs.work_kinds(layers)
            by_module[hlo.module(text)] = hlo.rows(text, tells, work_kinds)
            products.update((hlo.module(text), name) for name in hlo.products(text))
    return xplane.named(
        xplane.spans(traced, operation), moment, lambda what: tell(by_module, what), lambda what: what in products
    )


def operation(name, stats):
    """Return an event's (module, instruction), or the name of what surrounds instructions, or None."""
    if "hlo_op" in stats:
        return stats.get("hlo_module"), stats["hlo_op"]
    if name == recorder.CALIBRATE or name == "ThunkExecutor::Execute" or name.startswith("PjitFunction("):
        return name
    return None


def tell(by_module, what):
    """Return rows and column of what `operation` returned."""
    if isinstance(what, tuple):
        module, name = what
        return by_module.get(module, {}).get(name, ([], None))
    return ["framework"], None


def row(instruction, layers, batch, inside=False):
    """Return an instruction's row by its scope, `jit(_update)/transpose(jvp(fc1))/dot_general`, or None."""
    parts = instruction.op_name.split("/")
    last = parts[-1]
    for part in parts[1:]:  # the first is the program's name
        around, scope = SCOPE.match(part).groups()
        backward = "transpose(" in around
        if scope in recorder.LOSSES:
            return "loss"
        if scope.endswith((" update", ".update")):
            return scope[: -len(" update")] + " update"
        derives = backward or ("jvp(" in around and last in DERIVATIVE)
        for layer in layers:
            if scope == layer["name"] + " activation":
                return scope + (" gradient" if derives else "")
            if scope == layer["name"]:
                activates = inside and layer["activation"] != "none"
                if last == "add_any":
                    return graphs.joined(layer, layers)
                if layer["kind"] not in graphs.PRODUCTS:
                    return "%s %s" % (scope, "gradient" if backward else "forward")
                if backward and instruction.opcode in ("dot", "convolution"):
                    role = hlo.product(layer, instruction, batch)
                else:
                    role = _role(last, instruction.opcode, backward, derives, activates)
                return role and "%s %s" % (scope, role)
    return None


def _role(last, opcode, backward, derives, activates):
    """Return the role of an instruction in a layer's scope, unless it is a product of the backward pass."""
    if backward and (last.startswith("reduce") or last == "transpose"):
        return "wgrad" if last == "transpose" else "bias gradient"
    if not backward and (last in PRODUCT or opcode == "dot"):
        return "forward"
    if activates:
        return "activation gradient" if derives else "activation"
    return None if backward else "forward"
