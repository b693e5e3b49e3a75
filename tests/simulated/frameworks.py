"""Frameworks for tests: the NumPy adapter with something done to it, written to a folder of the test."""

from __future__ import annotations

from pathlib import Path

from macro.frameworks import Framework, find


def write(folder: Path, name: str, text: str) -> Framework:
    """An adapter that is the NumPy one, and then `text`."""
    path = folder / f"{name}.py"
    path.write_text(find("numpy").path.read_text("utf-8") + "\n\n" + text, "utf-8")
    return Framework(name, path, "for a test")


SICK = {  # what happens in a method of the model, or before there is one
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "segfault": "import ctypes; ctypes.string_at(0)",
    "exits": "import os; os._exit(3)",
    "raises": "raise ArithmeticError('seven')",
    "out of memory": "raise MemoryError('no more')",
    "hangs": "import time; time.sleep(600)",
    "closes its descriptors": "import os; os.closerange(3, 64); import time; time.sleep(600)",
    "leaves a child": "import os, time\n    if os.fork() == 0: time.sleep(600)\n    os._exit(0)",
}


def sick(folder: Path, where: str, fault: str) -> Framework:
    """Fails in `available`, `build`, `identity`, or in the model's `step` or `loss`."""
    body = SICK[fault]
    if where in ("available", "build", "identity"):
        text = f"def {where}(*job):\n    {body}\n    return None\n"
    else:
        text = f"def _sick(self):\n    {body}\n\n\nModel.{where} = _sick\n"
    return write(folder, f"sick-{where}", text)


# Each step also sleeps 20 ms.
SLEEPING = """
_step = Model.step


def step(self):
    import time

    time.sleep(0.02)
    _step(self)


Model.step = step
"""
NOISY = """
import os

_build = build


def build(job):
    print("a banner", flush=True)
    os.write(1, b'{"kind": "steps", "wall_ns": [1]}\\n')
    os.write(2, b"a warning\\n")
    return _build(job)
"""
PLACED = """
import ctypes

_identity = identity


def identity(job):
    return dict(_identity(job), at=ctypes.addressof(ctypes.create_string_buffer(70000)) % 4096)
"""
LINE = "MKL_VERBOSE SGEMM(T,N,40,32,24,0x1,0x2,24,0x3,24,0x4,0x5,40) 1.00us CNR:OFF Dyn:0 FastMM:1 TID:0  NThr:1"
# Logs a product as MKL does, and what `{fault}` makes of it.
TALKS = f"""
import os

plain_identity, plain_build = identity, build


def identity(job):
    return dict(plain_identity(job), blas="MKL")


def build(job):
    model = plain_build(job)
    plain_step = model.step

    def step():
        plain_step()
        {{fault}}
        if os.environ.get("MKL_VERBOSE"):
            print("{LINE}")  # in a buffer, until it ends

    model.step = step
    return model
"""
# A clock that only the model's own calls move, each by 1/512 s times the `costs` of its row, else of 1: exact in
# binary and in nanoseconds, so that every run gives the same numbers. What a system counts of a process is nothing.
SCRIPTED = """
import sys
import time

_clock, _costs, _call = [1000.0], {costs!r}, recorder.Steps.__call__
_loop = sys.modules["__main__"]


def _timed(self, rows, column, call, *args, **kwargs):
    def moved(*args, **kwargs):
        _clock[0] += _costs.get(rows[0], 1) / 512.0
        return call(*args, **kwargs)

    return _call(self, rows, column, moved, *args, **kwargs)


recorder.Steps.__call__ = _timed
recorder.now = lambda: int(_clock[0] * 1e9)
recorder.blocked, recorder.inside = lambda since=None: 0, lambda: 0
time.perf_counter = time.process_time = lambda: _clock[0]
_loop.usage, _loop.busy, _loop.canary = lambda: (0.0, 0, 0, 0), lambda: 0.0, lambda: 0.001


def identity(job):
    return {{"framework": "scripted", "version": "1", "blas": "none"}}
"""


def scripted(folder: Path, name: str, **costs: int) -> Framework:
    """NumPy's adapter by a scripted clock; `costs`: of rows, their blanks as underscores."""
    return write(folder, name, SCRIPTED.format(costs={row.replace("_", " "): cost for row, cost in costs.items()}))
