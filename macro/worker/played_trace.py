"""Trace of a stand-in for a GPU: each call of a step is a kernel on its only stream.

In the style of Python 3.6.
"""

import gzip
import json

import device_clocks  # beside this file
import recorder

STREAM = 7
NAMES = {"element-wise": "elementwise_kernel", "update": "sgd_update"}  # of kinds that no CUDA kernel is named after


def write(steps, call, count, path):
    """Write `count` calls as a trace of Chrome's format; `steps`: the recorder of all calls."""
    began = recorder.now()
    spans = steps.trace(lambda: [call() for _ in range(count)])
    ended = recorder.now()
    events = [_event(device_clocks.STEPS, "user_annotation", began, ended, began)]
    for i, span in enumerate(spans):
        where = {"device": 0, "stream": STREAM, "correlation": i}
        events.append(_event("launch", "cuda_runtime", span["start"], span["start"], began, correlation=i))
        name = span["column"] or span["name"]
        events.append(_event(NAMES.get(name, name), "kernel", span["start"], span["end"], began, **where))
    document = {"traceEvents": events, "deviceProperties": [{"id": 0, "name": "stand-in"}]}
    with gzip.open(path, "wb") as stream:
        stream.write(json.dumps(document).encode("utf-8"))


def _event(name, category, start, end, zero, **args):
    span = {"ts": (start - zero) * 1e-3, "dur": (end - start) * 1e-3}
    return dict(span, ph="X", name=name, cat=category, args=args)
