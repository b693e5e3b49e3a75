"""A JAX program's steps on a GPU, by its own profiler, as a trace of Chrome's format with kineto's categories.

Standard library and jax alone, in the style of Python 3.6. Of an xplane file: a GPU's plane has a line for each stream,
with kernels, copies and clears; the host's lines have the driver's calls that launched them, by their correlation. On a
processor that stands in for one the operations of its programs are its kernels.
"""

import gzip
import json
import os
import re
import shutil
import tempfile

import device_clocks  # beside this file
import xplane

GPU = re.compile(r"/device:GPU:(\d+)")
STREAM = re.compile(r"Stream #(\d+)")
COPY, CLEAR = re.compile("Memcpy", re.I), re.compile("Memset", re.I)
BETWEEN = re.compile(r"Memcpy([HD])2([HD])", re.I)  # as kineto writes it: HtoD
CALLS = re.compile("cu(da)?[A-Z]")  # of the driver, and of the runtime


def profile(jax, call, wait, count, path, stand_in):
    """So many of `call` until `wait` returns, into a trace."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    folder = tempfile.mkdtemp(prefix="kernelgap-trace-")
    try:
        jax.profiler.start_trace(folder, profiler_options=options)
        try:
            with jax.profiler.TraceAnnotation(device_clocks.STEPS):
                for _ in range(count):
                    call()
                wait()
        finally:
            jax.profiler.stop_trace()
        planes = list(xplane.planes(_file(folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    with gzip.open(path, "wb") as stream:
        stream.write(json.dumps(trace(planes, stand_in)).encode("utf-8"))


def _file(folder):
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".xplane.pb"):
                with open(os.path.join(where, name), "rb") as stream:
                    return stream.read()
    return b""


def trace(planes, stand_in):
    """`planes` as xplane.py has them."""
    zero = min([span[0] for _, lines in planes for _, _, spans in lines for span in spans] or [0])
    events, devices = [], []
    for name, lines in planes:
        found = GPU.search(name)
        if found:
            devices.append({"id": int(found.group(1)), "name": name})
        for number, title, spans in lines:
            where = _where(found, title) if found else {"device": 0, "stream": number % 997} if stand_in else None
            for start, end, what, stats in spans:
                tell = _of_gpu if found else _of_host
                events += [_event(zero, start, end, *told) for told in tell(what, stats, where)]
    return {"traceEvents": events, "deviceProperties": devices or [{"id": 0, "name": "stand-in"}]}


def _where(found, title):
    """Of a GPU's line; none of what a profiler sums up, which is no stream."""
    stream = STREAM.search(title)
    return {"device": int(found.group(1)), "stream": int(stream.group(1))} if stream else None


def _of_host(what, stats, where):
    """Category, name and arguments; `where`: on a stand-in, where operations of programs are kernels."""
    if what == device_clocks.STEPS:
        yield "user_annotation", what, {}
    elif where and "hlo_op" in stats:
        yield "kernel", stats["hlo_op"], where
    elif not where and "correlation_id" in stats and CALLS.match(what):
        yield "cuda_driver", what, {"correlation": stats["correlation_id"]}


def _of_gpu(what, stats, where):
    """The same of what runs in a stream."""
    if where is None:
        return
    told = dict(where)
    if "correlation_id" in stats:
        told["correlation"] = stats["correlation_id"]
    if COPY.search(what):
        size = re.search(r"size:(\d+)", str(stats.get("memcpy_details", "")))
        told["bytes"] = int(size.group(1)) if size else 0
        yield "gpu_memcpy", BETWEEN.sub(r"Memcpy \1to\2", what), told
    else:
        yield "gpu_memset" if CLEAR.search(what) else "kernel", what, told


def _event(zero, start, end, category, name, args):
    """From nanoseconds to the format's microseconds."""
    span = {"ts": (start - zero) * 1e-3, "dur": (end - start) * 1e-3}
    return dict(span, ph="X", cat=category, name=name, args=args)
