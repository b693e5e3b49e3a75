"""The page docs/cuda-kernels.md: which CUDA kernels were compiled, which ran, and by what (`python docs/cuda.py`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from kernels import nvcc  # noqa: E402
from kernels.ops.gemm import gpu  # noqa: E402
from kernels.problem import Problem  # noqa: E402
from tests.simulated import cases, simulate  # noqa: E402

PAGE = ROOT / "docs/cuda-kernels.md"
ARCHS = (*cases.ARCHS, cases.ALONE)
COLUMNS = ("kernel", "source", *ARCHS, "run by", "at", "largest error", "on a GPU")
HEAD = """# CUDA kernels: what is known of them

`docs/cuda.py` writes this page; `tests/simulated/test_page.py` compares its rows and columns with the code.

Words of measuring are explained in the [glossary](glossary.md).

nvcc compiles the kernels in CUDA C. The column of an architecture has registers a thread, bytes of static shared memory
a block, and spilled bytes. wgmma is compiled only for sm_90a (Hopper).

Results are tested on a CPU. The shim (`tests/simulated/shim.h`) compiles the same file with g++: each CUDA thread is a
fiber, each operand lies between guards. `tests/simulated/ptx.h` emulates inline PTX, `mma.sync` and `wgmma`, by
NVIDIA's documentation. The simulator is Numba's. Both detect wrong indices, missing barriers and accesses outside an
operand, but neither speed nor races that switching at barriers does not expose.

ThreadSanitizer, with a thread for each CUDA thread (`tests/simulated/threads.h`), finds no race in the CUDA C kernels
at these shapes, neither within a block nor between two consecutive blocks. If any one of their barriers is removed, it
finds one. Only `__syncthreads`, `__syncwarp` (within a warp) and the end of a launch order accesses; a shuffle does
not.

The error is the largest |got − want| against float64, for standard normal inputs, at each of the three shapes. Shapes
in the column *at*:

- `fma_chains10`: steps × chains × multiprocessors.
- `mma_…`, `wgmma_…`: steps × multiprocessors (a sum of n equal products grows by n, and its error by n²).
- `exchange_…`: words between lanes or added to × steps × multiprocessors (integers, exact).
- launch: calls. Convolution: benchdnn's notation; each stage is tested by itself.

*H100: right* ([gpu.md](gpu.md)): a launch at an odd shape agreed with float64; for Numba's kernels, their tests; for
`exchange_add_shared`, fixed after it did not terminate, launches of a contest."""
VISIT = ROOT / "reports/reference/h100"
RIGHT, NEVER, NOT = "H100: right", "never yet", "–"
BEFORE, CHANGED = "H100: right, before it was changed", ("chase_build", "chase_touch", "chase_walk")
IN_CONTESTS = {"exchange_add_shared"}  # judged where it was timed
UNITS = {"stream": " B", "chase": " B", "launch": " ×"}


def simulated() -> dict[str, list[float]]:
    """Errors of the Numba twins, from a process in which Numba simulates."""
    done = subprocess.run(
        [sys.executable, "-m", simulate.__name__],
        cwd=ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, list[float]] = json.loads(done.stdout)
    return told


def page(twins: Mapping[str, Sequence[float]]) -> str:
    """Return the page, with these errors of the Numba twins."""
    rows = [COLUMNS, ("---",) * len(COLUMNS), *map(_row, cases.KERNELS)]
    source = _link(Path(gpu.__file__))
    for name, errors in twins.items():
        shapes = ", ".join("×".join(map(str, shape)) for shape in simulate.SHAPES)
        compiled = (*("by Numba, at launch",) * len(cases.ARCHS), NOT)
        rows.append((f"`{name}`", source, *compiled, "simulator", shapes, _errors(errors), RIGHT))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{HEAD}\n\n{table}\n"


def _row(kernel: cases.Kernel) -> tuple[str, ...]:
    compiled = []
    for arch in ARCHS:
        if arch not in cases.archs(kernel):
            compiled.append(NOT)
            continue
        it = nvcc.resources(kernel.source, arch)[kernel.name]
        compiled.append(f"{it.registers}, {it.shared}, {it.spill_stores + it.spill_loads}")
    errors = [cases.run(kernel, problem, align=16).largest for problem in kernel.problems]
    shapes = ", ".join(map(_shape, kernel.problems))
    return (f"`{kernel.name}`", _link(kernel.source), *compiled, "shim", shapes, _errors(errors), _seen(kernel.name))


def _seen(name: str) -> str:
    """Return how far a kernel is known on a GPU."""
    records = map(json.loads, (VISIT / "own-kernels.ndjson").read_text("utf-8").splitlines())
    right = {x["kernel"] for x in records if x.get("right")} | IN_CONTESTS
    return NEVER if name not in right else BEFORE if name in CHANGED else RIGHT


def _shape(problem: Problem) -> str:
    """Return the extents, of a stream or a chain of loads in bytes; a convolution has its benchdnn descriptor."""
    if problem.descriptor:
        return problem.descriptor.rpartition(" ")[2]
    names = [field.name for field in fields(problem) if field.type == "int" and field.name != "page"]
    values = [getattr(problem, name) for name in names]
    return "×".join(str(value) for value in values if value) + UNITS.get(problem.op, "")


def _errors(errors: Sequence[float]) -> str:
    return ", ".join(f"{error:.1e}" if error else "0" for error in errors)


def _link(path: Path) -> str:
    return f"[{path.name}](../{path.relative_to(ROOT)})"


if __name__ == "__main__":
    PAGE.write_text(page(simulated()), "utf-8")
