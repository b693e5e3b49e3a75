"""The Numba twins in Numba's simulator, in a process of their own: the simulator is chosen before the import."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.ops.gemm import gpu

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="no numba: pip install 'kernelgap[numba]'"
)


def simulate(*change: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulated.simulate", *change],
        cwd=ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
def test_twins_are_right_in_the_simulator() -> None:
    done = simulate()
    assert done.returncode == 0, done.stderr[-2000:]
    assert {name: len(errors) for name, errors in json.loads(done.stdout).items()} == dict.fromkeys(gpu.TILES, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if beta == 0:  # C is not read", "if False:  # C is read"),
        ("range(a.shape[1])", "range(a.shape[1] - 1)"),
        ("// across * tile + y", "// across * tile + x"),
        ("            cuda.syncthreads()\n            for p", "            for p"),
        ("left[y, x] = a[i, start + x] if i < a.shape[0] and ", "left[y, x] = a[i, start + x] if "),
    ],
)
def test_broken_twin_is_refused(old: str, new: str) -> None:
    done = simulate(old, new)
    assert done.returncode == 1
    assert "AssertionError" in done.stderr or "IndexError" in done.stderr, done.stderr[-2000:]


@pytest.mark.parametrize("kernel", gpu.TILES)
def test_geometry_covers_c(kernel: str) -> None:
    blocks, (cols, rows) = gpu.geometry(kernel, 33, 65)
    assert (blocks - 1) * rows * cols < 40 * 96 <= blocks * rows * cols * 2
    assert gpu.geometry(kernel, 1, 1) == (1, (cols, rows))


def test_importing_the_twins_does_not_import_numba() -> None:
    told = "import sys, kernels.ops.gemm.gpu; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], cwd=ROOT, check=False).returncode == 0
