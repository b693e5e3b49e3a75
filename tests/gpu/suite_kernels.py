"""The suite's CUDA kernels, each launched once: small and odd with its answer checked, or larger than a cache.

    python -m tests.gpu.suite_kernels PARENT FILE small|large [KERNEL …]

does so on the first GPU, for a tool that watches it; a line a kernel goes to FILE.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import nvcc
from kernels.catalog import find
from kernels.errors import SuiteError, UsageError, summary
from kernels.launch import Launch
from kernels.ops.mma.variants import ARCHS
from kernels.problem import Problem
from kernels.setting import Setting
from micro.planning.contest import parse
from tests.gpu.session import processes

if TYPE_CHECKING:
    from kernels.devices.cuda import Cuda

OPS = Path(nvcc.__file__).parent / "ops"
DATA = "uniform"  # what steps with a second moment ask for, and right for all


@dataclass(frozen=True)
class SuiteKernel:
    """A kernel, the row of its operation's table that launches it, and a problem."""

    kernel: str
    row: str
    problem: Problem


@dataclass(frozen=True)
class Compiled:
    """Files that were to be compiled, how many were, and why the others were not."""

    files: int
    compiled: int
    failed: list[str]


def _table(size: str) -> tuple[SuiteKernel, ...]:
    rows = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))[size]
    return tuple(SuiteKernel(name, row, parse(f"{problem}/variant:{row}").problem) for name, row, problem in rows)


SMALL = _table("small")  # the last of which did not end under compute-sanitizer 2025.3 on an H100
LARGE = _table("large")  # operands of 268 MB: a cache holds a fifth of one


def compile_all(arch: str) -> Compiled:
    """Compile all files for a device at once, so that whoever launches their kernels finds them.

    Without nvcc there are none: they are compiled when they are launched.
    """
    files = sources(arch) if nvcc.missing() is None else {}
    with ThreadPoolExecutor() as pool:
        failed = [reason for reason in pool.map(complaint, files, files.values()) if reason]
    return Compiled(len(files), len(files) - len(failed), failed)


def sources(arch: str) -> dict[Path, str]:
    """Return the kernels' files that a device of `arch` can run, and what each is compiled for."""
    archs = {path: ARCHS.get(path.stem) or arch for path in sorted(OPS.glob("*/*.cu"))}
    return {path: target for path, target in archs.items() if target.rstrip("a") == arch}


def complaint(source: Path, arch: str) -> str | None:
    """Return why a file does not compile."""
    try:
        nvcc.cubin(source, arch)
    except SuiteError as error:
        return str(error)
    return None


def checked(device: Cuda, kernel: SuiteKernel) -> dict[str, Any]:
    """Launch a small problem once and say whether its answer is right.

    What is only written was never written before: whoever watches for that sees a kernel that reads it.
    """
    import numpy as np

    x = kernel.problem.fill(np.random.default_rng(zlib.crc32(kernel.problem.name.encode())))

    def load(block: Any, view: Any, name: str) -> None:
        device.put(view, x[name])

    views, launch = bound(device, kernel, load)
    launch.call()
    device.sync()
    written = zip(kernel.problem.operands(), views, strict=True)
    got = {operand.name: device.get(view) for operand, view in written if operand.role != "in"}
    row = find(kernel.problem.op, kernel.row)
    evidence = row.judged(kernel.problem).compare(x, got, row.u(kernel.problem), "dense")
    return {"right": all(bool((output.error <= output.bound).all()) for output in evidence)}


def launched(device: Cuda, kernel: SuiteKernel) -> dict[str, Any]:
    """Launch a large problem once on random operands."""
    import numpy as np

    operands = {operand.name: operand for operand in kernel.problem.operands()}

    def load(block: Any, view: Any, name: str) -> None:
        operand = operands[name]
        if operand.below:
            device.put(view, kernel.problem.indices(operand, np.random.default_rng(1)))
        else:
            device.scatter(block, 1, operand.dtype, DATA)

    _, launch = bound(device, kernel, load)
    launch.call()
    device.sync()
    return {}


def bound(device: Cuda, kernel: SuiteKernel, load: Callable[[Any, Any, str], None]) -> tuple[list[Any], Launch]:
    """Return the operands, each in its own allocation so that a step beyond it is seen, and the call on them."""
    setting = Setting(device=device.name, data=DATA)
    bind = find(kernel.problem.op, kernel.row).prepare(kernel.problem, device, setting)
    views = []
    for operand in kernel.problem.operands():
        block = device.cp.empty(operand.nbytes, device.cp.uint8)
        views.append(device.view(block, 0, operand))
        if operand.role != "out":
            load(block, views[-1], operand.name)
    return views, bind(views)


def launch_each(device: Cuda, size: str, names: Sequence[str], report: Callable[[dict[str, Any]], None]) -> None:
    """Launch the named kernels of SMALL or LARGE, or all of them, and report each as it was launched."""
    some = SMALL if size == "small" else LARGE
    if strange := set(names) - {kernel.kernel for kernel in some}:
        raise UsageError(f"no {size} kernel {', '.join(sorted(strange))}")
    for kernel in some:
        if names and kernel.kernel not in names:
            continue
        try:
            facts = (checked if some is SMALL else launched)(device, kernel)
        except Exception as error:  # what watches it may say why
            facts = {"error": summary(error)}
        report({"kernel": kernel.kernel, **facts})


def main(parent: int, path: str, size: str, *names: str) -> None:
    """Launch kernels on the first GPU for a tool, whose own parent is `parent`."""
    processes.follow(parent)
    import cupy

    from kernels.devices.cuda import open_device

    cupy.cuda.set_allocator(None)  # no pool: a memory checker then has each operand's end
    file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def report(line: dict[str, Any]) -> None:
        os.write(file, json.dumps(line).encode() + b"\n")

    launch_each(open_device("0"), size, names, report)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
