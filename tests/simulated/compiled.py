"""What g++ made of a text, kept for the other processes of a run and for later runs: compiling is most of what the
simulated kernels take."""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.builds import kept

HERE = Path(__file__).parent


@functools.cache
def _known() -> bytes:
    """The compiler and our headers, which a text includes."""
    there = shutil.which("g++")
    stamp = f"{there} {Path(there).stat().st_mtime_ns}" if there else ""
    return stamp.encode() + b"".join(path.read_bytes() for path in sorted(HERE.glob("*.h")))


def compiled(text: str, flags: Sequence[str]) -> Path:
    """The program or library. Raises AssertionError with what g++ says."""
    key = hashlib.sha256(b"\0".join([_known(), repr([*flags]).encode(), text.encode()])).hexdigest()[:32]
    made = kept() / key
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=kept()) as folder:
            source, out = Path(folder) / "kernels.cc", Path(folder) / "made"
            source.write_text(text)
            command = ["g++", *flags, str(source), "-o", str(out)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
            out.replace(made)
    return made
