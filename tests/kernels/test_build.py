"""Our shared objects beside others that export the same names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOADS = """
import ctypes, sys
from pathlib import Path
from kernels import build

ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
print(build.load(Path(sys.argv[2])).outer())
"""


def test_a_function_calls_its_own_neighbor(tmp_path: Path) -> None:
    """As saxpy.c's warm_ready, where MKL with its saxpy is there for everyone."""
    from kernels import build

    (tmp_path / "other.c").write_text("int inner(void) { return 2; }\n")
    (tmp_path / "own.c").write_text(
        "__attribute__((noinline)) int inner(void) { return 1; }\nint outer(void) { return inner(); }\n"
    )
    other = build.shared(tmp_path / "other.c")
    ran = subprocess.run(
        [sys.executable, "-c", LOADS, str(other), str(tmp_path / "own.c")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("1\n", "")
