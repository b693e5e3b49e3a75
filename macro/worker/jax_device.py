"""Traces of a JAX program's steps on a GPU by its profiler, in Chrome's format as kineto writes it.

Standard library and jax alone, in the style of Python 3.6. In an xplane file a GPU's plane has a line for each stream,
with kernels, copies and clears; the host's lines have the calls of the driver that launched them, by correlation. XLA
runs no command buffers (CUDA graphs) while it is profiled. On a processor that stands in for a GPU the operations of
its programs are its kernels.
"""

import gzip
import json
import re

import device_clocks  # beside this file
import jax_trace
import xplane

GPU = re.compile(r"/device:GPU:(\d+)")
STREAMS = 1 << 30  # stream numbers are smaller, those of processor threads larger
BETWEEN = re.compile(r"Memcpy([HD])2([HD])", re.I)  # as kineto writes it: HtoD


def profile(jax, call, wait, count, path, card):
    """Write a trace of `count` calls and the `wait` for them; return the reason if there is none.

    `card`: the GPU's name, None for a stand-in.
    """

    def run():
        for _ in range(device_clocks.FIRST):
            call()
        wait()
        with jax.profiler.TraceAnnotation(device_clocks.STEPS):
            for _ in range(count):
                call()
            wait()

    planes = list(xplane.planes(xplane.profiled(jax_trace.starter(jax), jax.profiler.stop_trace, run)))
    document = trace(planes, card)
    if card and not document["deviceProperties"]:
        return "JAX's profiler saw nothing of the GPU: is CUPTI there, and may it count (NVIDIA's ERR_NVGPUCTRPERM)?"
    with gzip.open(path, "wb") as stream:
        stream.write(json.dumps(document).encode("utf-8"))
    return None


def trace(planes, card):
    """Return the document of a trace; a line of a GPU's plane has its stream's number."""
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


def _of_host(what, stats, where):
    """Return category, name and arguments; `where`: place of a stand-in, whose operations are kernels."""
    if what == device_clocks.STEPS:
        return "user_annotation", what, {}
    if where and "hlo_op" in stats:
        return "kernel", stats["hlo_op"], where
    if not where and "correlation_id" in stats:  # XLA names a launch as its kernel
        return "cuda_driver", what, {"correlation": stats["correlation_id"]}
    return None


def _of_gpu(what, stats, where):
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
