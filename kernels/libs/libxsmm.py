"""libxsmm 1, a static library with its headers: of what came later its convolutions are no part."""

from __future__ import annotations

import os
from pathlib import Path

HEADER = "libxsmm_dnn_convolution.h"  # libxsmm 2 has it no more
FOLDERS = ("/usr/include", "/usr/local/include")
# All of it, as an archive that stands before what needs it would give nothing.
FLAGS = ("-Wl,--whole-archive", "-lxsmm", "-lxsmmnoblas", "-Wl,--no-whole-archive", "-ldl", "-lpthread")


def missing() -> str | None:
    """Why it is not here, told without compiling anything."""
    named = os.environ.get("CPATH", "").split(os.pathsep)
    if any(Path(folder, HEADER).exists() for folder in (*FOLDERS, *filter(None, named))):
        return None
    return "libxsmm 1 is not installed: apt-get install libxsmm-dev (Debian)"
