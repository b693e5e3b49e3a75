"""Choice of the suite's fastest variant for each problem, measured once and stored."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import suite_device  # beside this file

from kernels import state
from kernels.catalog import find
from kernels.devices.cpu import processor
from kernels.errors import SuiteError, Unavailable
from kernels.setting import Setting
from kernels.steering import TUNING, variables

FOLDER = Path(__file__).resolve().parents[2]  # parent of kernels/
# Without variants that autotune in each process: the timed kernel must be the proven kernel.
ON_A_GPU = {
    "gemm": ("cublas", "cublaslt", "cuda-tiled"),
    "conv": (
        "cudnn-precomp-gemm",
        "cudnn-implicit-gemm",
        "cudnn-algo-0",
        "cudnn-algo-1",
        "cudnn-fft",
        "cudnn-fft-tiling",
        "cudnn-winograd-nonfused",
        "cuda-im2col",
        "cuda-winograd-4x3",
        "cuda-implicit",
        "cufft",
    ),
    "activation": ("cuda",),
    "optimizer": ("cuda",),
}
CANDIDATES = {
    "gemm": ("openblas", "openblas-scipy", "mkl", "onednn", "blocked", "torch"),
    "conv": (
        "onednn-auto",
        "onednn-direct",
        "onednn-winograd",
        "onednn-gemm",
        "torch",
        "im2col",
        "im2col-blocks",
        "gemm-1x1",
        "winograd-4x3",
        "fft-pyfftw",
        "fft-tiled-32-pyfftw",
    ),
    "activation": ("c",),
    "optimizer": ("c",),
    "softmax": ("c",),
    "gather": ("c", "c-scatter"),
    "recurrent": ("c-batched", "onednn"),
}
LIBRARIES = ("numpy", "scipy", "mkl", "torch", "onednn-cpu-gomp", "pyfftw")
TALKS = re.compile("VERBOSE|PROFILE")  # variables that only make a library print messages
TRIES = 2  # calls of a candidate near the fastest; its fastest call counts
NEAR = 1.1  # times the fastest first call: slower candidates are called only once
CHOSEN: dict[str, str] = {}  # {problem: fastest variant}
USED: dict[str, str] = {}  # the choices of this network
FAULTS: dict[str, str] = {}  # {"problem, candidate": error on a GPU}
ON: dict[str, Any] = {}  # facts of the GPU, empty on a CPU
AMONG: list[str] = []  # [digest of circumstances], taken before a library sets variables itself


def _circumstances(job: dict[str, Any]) -> str:
    """Return a digest of all that the choice depends on: processor, threads, libraries, variables, code."""
    steered = {name: value for name, value in variables(TUNING).items() if not TALKS.search(name)}
    chip = ON or processor()
    parts = [chip, job["threads"], job.get("preload"), steered, list(map(suite_device.installed, LIBRARIES))]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
    for path in [Path(__file__).resolve(), *sorted((FOLDER / "kernels").rglob("*.[pc]*"))]:
        if path.suffix in (".py", ".c", ".cu"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:24]


def _stored(name: str) -> dict[str, Any]:
    """Return the stored choices by problem; {} if the file is missing or damaged."""
    try:
        return dict(json.loads((state.folder() / name).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


class Products:
    """Problems executed by their fastest variants, measured on scratch operands of the same sizes.

    Choices are stored in the state folder, for a processor, its libraries and a number of threads, so that the timed
    variant is the proven variant.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self.device = suite_device.opened(job)
        self.on_gpu = self.device.kind.kernels != "cpu"
        ON.clear()
        ON.update(suite_device.facts(self.device) if self.on_gpu else {})
        AMONG[:] = [_circumstances(job)]
        self.kept, self.candidates = f"products/{AMONG[0]}.json", ON_A_GPU if self.on_gpu else CANDIDATES
        threads = 1 if self.on_gpu else job["threads"]
        self.setting = Setting(threads, device=self.device.name, data="uniform")  # squares are not negative
        USED.clear()
        FAULTS.clear()
        CHOSEN.clear()
        CHOSEN.update(_stored(self.kept))

    def prepared(self, problem: Any, alone: bool = False) -> Any:
        """Return the fastest variant's kernel, prepared to be bound to buffers; `alone`: on one thread."""
        setting = replace(self.setting, threads=1) if alone else self.setting
        return find(problem.op, self.fastest(problem)).prepare(problem, self.device, setting)

    def fastest(self, problem: Any) -> str:
        """Return the name of the fastest variant."""
        if problem.name not in CHOSEN:
            rows = [find(problem.op, name) for name in self.candidates[problem.op]]
            candidates = [x.name for x in rows if len(rows) == 1 or not (x.accepts(problem) or x.missing())]
            CHOSEN[problem.name] = candidates[0] if len(candidates) == 1 else self._best(problem)
            CHOSEN.update(_stored(self.kept))  # the first process to store a choice wins
            with contextlib.suppress(OSError):  # a lost choice costs another measurement and proof
                state.write(self.kept, json.dumps(CHOSEN))
        USED[problem.name] = CHOSEN[problem.name]
        return USED[problem.name]

    def _best(self, problem: Any) -> str:
        """Return the name of the fastest candidate. Raises NotImplementedError if no candidate runs."""
        seconds = self._on_gpu(problem) if self.on_gpu else self._on_cores(problem)
        if not seconds:
            where = "on this GPU" if self.on_gpu else f"with {self.setting.threads} threads: pip install torch"
            raise NotImplementedError(f"no kernel of {problem.name} runs {where}")
        return min(seconds, key=lambda name: seconds[name])

    def _views(self, problem: Any) -> list[Any]:
        blocks = [self.device.allocate(x.nbytes) for x in problem.operands()]
        for i, block in enumerate(blocks):
            self.device.scatter(block, i)
        return [self.device.view(b, 0, x) for b, x in zip(blocks, problem.operands())]

    def _on_gpu(self, problem: Any) -> dict[str, float]:
        """Return seconds of each candidate, prepared one at a time, so that each frees its workspace."""
        views, seconds = self._views(problem), dict[str, float]()
        for name in self.candidates[problem.op]:
            call = None
            try:
                call = self._call(name, problem, views)
                if call:
                    seconds[name] = suite_device.seconds(self.device, call, warm=not seconds)
            except Unavailable:
                continue
            except Exception as error:  # CuPy's too; after a lost context all candidates fail
                FAULTS[f"{problem.name}, {name}"] = f"{type(error).__name__}: {error}"
        return seconds

    def _on_cores(self, problem: Any) -> dict[str, float]:
        """Return seconds of each candidate's fastest call; candidates near the fastest are called again."""
        views, calls = self._views(problem), {}
        for name in self.candidates[problem.op]:
            with contextlib.suppress(SuiteError):
                calls[name] = self._call(name, problem, views)
        seconds = {name: self._seconds(call) for name, call in calls.items() if call}
        near = NEAR * min(seconds.values()) if seconds else 0.0
        for name in [name for name in seconds if seconds[name] <= near]:
            again = [self._seconds(calls[name]) for _ in range(TRIES - 1)]
            seconds[name] = min([seconds[name], *again])
        return seconds

    def _call(self, name: str, problem: Any, views: list[Any]) -> Any:
        """Return a variant's call, or None if it is missing or refuses the problem. Raises SuiteError."""
        row = find(problem.op, name)
        if row.missing() or row.accepts(problem):
            return None
        return row.prepare(problem, self.device, self.setting)(views).call

    def _seconds(self, call: Callable[..., Any]) -> float:
        clock = time.process_time if self.setting.threads == 1 else time.perf_counter
        start = clock()
        call()
        return clock() - start
