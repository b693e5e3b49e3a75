"""Spans of a JAX program by its profiler, with rows by scopes in its HLO; traces of steps on a GPU.

A layer's scope is its name; its activation has the scope `fc1 activation`, or is `inside` the layer's scope, as in
Keras. Updates have scopes `fc1 update`, or `fc1.update` in Keras. In an xplane file a GPU's plane has a line for each
stream, with kernels, copies and clears; the host's lines have the driver calls that launched them, linked by
correlation. XLA runs no command buffers (CUDA graphs) while it is profiled. On a CPU that simulates a GPU, the
operations of XLA's programs count as kernels.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
from collections.abc import Callable
from typing import Any

import device_clocks  # beside this file
import graphs
import hlo
import recorder
import xplane

SCOPE = re.compile(r"((?:\w+\()*)([^()]*)")
DERIVATIVE = ("sub", "mul", "gt", "select_n")  # an activation's derivative, which JAX computes in the forward pass
PRODUCT = ("dot_general", "add")  # the bias too
GPU = re.compile(r"/device:GPU:(\d+)")
STREAMS = 1 << 30  # stream numbers are smaller; numbers of CPU threads may be larger
BETWEEN = re.compile(r"Memcpy([HD])2([HD])", re.I)  # as kineto writes it: HtoD


def starter(jax: Any) -> Any:
    """Return a function that starts JAX's profiler, without Python spans, writing to a folder."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    return lambda folder: jax.profiler.start_trace(folder, profiler_options=options)


def spans(
    jax: Any, run: Callable[[], object], programs: Any, layers: list[dict[str, Any]], batch: int, inside: bool = False
) -> list[dict[str, Any]]:
    """Run `run` and return its spans; `programs`: (jitted function, arguments) that `run` may call."""
    traced, moment = xplane.record(starter(jax), jax.profiler.stop_trace, jax.profiler.TraceAnnotation, run)
    ran = {stats.get("hlo_module") for _, events in traced for _, _, _, stats in events}
    by_module, products = dict[str, Any](), set[tuple[str, str]]()
    for call, arguments in programs:
        if "jit_" + call.__name__ in ran:
            text = call.lower(*arguments).compile().as_text()
            tells, work_kinds = (lambda instruction: row(instruction, layers, batch, inside)), graphs.work_kinds(layers)
            by_module[hlo.module(text)] = hlo.rows(text, tells, work_kinds)
            products.update((hlo.module(text), name) for name in hlo.products(text))
    events = xplane.spans(traced, operation)
    named = xplane.named(events, moment, lambda what: tell(by_module, what), lambda what: what in products)
    return [*_runtime(named), *named]


def _runtime(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a span around all others for each thread that has the main thread's name.

    JAX runs programs from such threads, and frees a program's memory in them afterwards; threads of the pool that
    computes have another name."""
    threads = {}
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{thread}/comm") as stream:
            threads[int(thread)] = stream.read()
    main = threads.pop(os.getpid(), None)
    if not spans:
        return []
    about = {"start": min(x["start"] for x in spans), "end": max(x["end"] for x in spans), "name": "runtime"}
    alike = [thread for thread, name in threads.items() if name == main]
    return [{**about, "rows": ["framework"], "column": None, "background": True, "thread": thread} for thread in alike]


def operation(name: str, stats: dict[str, Any]) -> Any:
    """Return an event's (module, instruction), or its name if it encloses instructions, or None."""
    if "hlo_op" in stats:
        return stats.get("hlo_module"), stats["hlo_op"]
    if name == recorder.CALIBRATE or name == "ThunkExecutor::Execute" or name.startswith("PjitFunction("):
        return name
    return None


def tell(by_module: dict[str, Any], what: Any) -> Any:
    """Return rows and column of an event, by the result of `operation`."""
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
    """Return the role of an instruction in a layer's scope, except backward products; None if unknown."""
    if backward and (last.startswith("reduce") or last == "transpose"):
        return "wgrad" if last == "transpose" else "bias gradient"
    if not backward and (last in PRODUCT or opcode == "dot"):
        return "forward"
    if activates:
        return "activation gradient" if derives else "activation"
    return None if backward else "forward"


def profile(
    jax: Any, call: Callable[..., Any], wait: Callable[[], object], count: int, path: str, card: str | None
) -> str | None:
    """Write a trace of `count` calls in Chrome's format; return the reason of a failure, or None.

    `wait` returns when the calls are done; `card`: the GPU's name, None if simulated.
    """

    def run() -> None:
        for _ in range(device_clocks.FIRST):
            call()
        wait()
        with jax.profiler.TraceAnnotation(device_clocks.STEPS):
            for _ in range(count):
                call()
            wait()

    planes = list(xplane.planes(xplane.profiled(starter(jax), jax.profiler.stop_trace, run)))
    document = trace(planes, card)
    if card and not document["deviceProperties"]:
        return "JAX's profiler recorded nothing on the GPU: install CUPTI, or permit it (NVIDIA's ERR_NVGPUCTRPERM)"
    with gzip.open(path, "wb") as stream:
        stream.write(json.dumps(document).encode("utf-8"))
    return None


def trace(planes: Any, card: str | None) -> dict[str, Any]:
    """Return a trace in Chrome's format; the number of a line in a GPU's plane is its stream."""
    zero = min([span[0] for _, lines in planes for _, spans in lines for span in spans] or [0])
    events, devices = [], {}
    for name, lines in planes:
        gpu = GPU.search(name)
        for number, spans in lines:
            where = {"device": int(gpu.group(1)) if gpu else 0, "stream": number % STREAMS}
            for start, end, what, stats in spans:
                labels = _of_gpu(what, stats, where) if gpu else _of_host(what, stats, None if card else where)
                events += [device_clocks.event(zero, start, end, *labels)] if labels else []
                if labels and "device" in labels[2]:
                    devices[where["device"]] = {"id": where["device"], "name": card or "stand-in"}
    return {"traceEvents": events, "deviceProperties": list(devices.values())}


def _of_host(what: str, stats: dict[str, Any], where: dict[str, int] | None) -> Any:
    """Return category, name and arguments of a host event, or None; `where`: place of a simulated GPU."""
    if what == device_clocks.STEPS:
        return "user_annotation", what, {}
    if where and "hlo_op" in stats:
        return "kernel", stats["hlo_op"], where
    if not where and "correlation_id" in stats:  # XLA names a launch as its kernel
        return "cuda_driver", what, {"correlation": stats["correlation_id"]}
    return None


def _of_gpu(what: str, stats: dict[str, Any], where: dict[str, int]) -> Any:
    """Return category, name and arguments of a stream's event; None for memory counters and summaries."""
    args = dict(where)
    if "correlation_id" in stats:
        args["correlation"] = stats["correlation_id"]
    if "memcpy_details" in stats:
        size = re.search(r"size:(\d+)", str(stats["memcpy_details"]))
        args["bytes"] = int(size.group(1)) if size else 0
        return "gpu_memcpy", BETWEEN.sub(r"Memcpy \1to\2", what), args
    for detail, category in (("kernel_details", "kernel"), ("Memset_details", "gpu_memset")):
        if detail in stats:
            return category, what, args
    return None
