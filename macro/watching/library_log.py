"""Library calls of a framework, read from the logs of MKL and oneDNN for a step in an untimed process.

Only sizes, transpositions and convolution algorithms are taken from a log. XLA's log is not used: XLA calls oneDNN
on panels that it packed itself, which are no products of the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from kernels.errors import SuiteError
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from macro.processes import job as job_files
from macro.processes.process import Process
from macro.timing.entry import HANGS, Entry, Plan
from micro.planning.library_log import algorithms, read

TALK = {"MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
TALKERS = ("Math Kernel", "MKL", "oneDNN")  # in the library names that a framework reports
PRIMITIVES = ("convolution", "deconvolution", "gemm", "inner_product", "matmul", "reorder", "rnn")
PRODUCTS = r"MKL \w*(GEMM|GEMV|GER|SYRK|SYMM|TRSM|TRMM)\w*|oneDNN (" + "|".join(PRIMITIVES) + ")"
PROBE = 1e-6  # of the largest product's flops: smaller products only probe whether a library works


def talked(text: str, steps: int) -> dict[str, float]:
    """Return seconds per step by call, parsed from a library's log of `steps` steps."""
    seconds: dict[str, float] = {}
    for (word, _), calls in read(text).calls.items():
        if calls.seconds is not None and re.match(PRODUCTS, word):
            seconds[word] = seconds.get(word, 0.0) + calls.seconds / steps
    return seconds


@dataclass(frozen=True)
class Logged:
    """Distinct matrix products that a library logged, and the algorithm of each logged convolution."""

    products: list[Gemm] = field(default_factory=list)
    convolutions: dict[Conv, str] = field(default_factory=dict)


def logged(plan: Plan, entry: Entry, folder: Path, say: Callable[[str], None]) -> Logged:
    """Return the products logged in one step; none if no library writes a log or the process fails."""
    libraries = f"{entry.identity.get('blas')} {entry.identity.get('dnn')}"
    if not any(word in libraries for word in TALKERS):
        return Logged()
    say(f"logging the library calls of {entry.framework.name}")
    knobs = entry.setting.knobs
    setting = replace(entry.setting, knobs={**knobs, "variables": {**knobs.get("variables", {}), **TALK}})
    job = job_files.write(entry.framework, plan.network, plan.batch, setting, folder)
    log = job.with_suffix(".calls")
    complete = False
    with suppress(SuiteError, OSError), Process(entry.framework, job, setting, log) as process:
        process.expect("hello")
        process.expect("built")
        process.ask(HANGS, "steps", do="steps", phase=plan.phase, count=1)
        process.ask(HANGS, "bye", do="bye")
        complete = process.wait()  # what its libraries hold in buffers is written as it ends
    text = log.read_text("utf-8", "replace") if complete else ""
    products = list(read(text).of(Gemm))
    most = max((x.flops for x in products), default=0.0)
    return Logged([x for x in products if x.flops > PROBE * most], algorithms(text))
