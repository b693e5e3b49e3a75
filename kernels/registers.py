"""Which vector registers a compiled file uses: the instruction set that it was really given, by its machine code."""

from __future__ import annotations

import functools
import re
from pathlib import Path

WIDEST = {"zmm": 512, "ymm": 256, "xmm": 128}  # bits


@functools.cache
def widest(path: Path) -> int | None:
    """Bits of the widest register in the code of a shared object; None where there is none, or no disassembler that
    tells (objdump, which comes with the assembler that gcc calls)."""
    import shutil
    import subprocess

    if (tool := shutil.which("objdump")) is None:
        return None
    code = subprocess.run([tool, "-d", "--no-show-raw-insn", str(path)], capture_output=True, text=True, check=False)
    named = set(re.findall(r"%([xyz]mm)\d", code.stdout))
    return max((WIDEST[name] for name in named), default=None)
