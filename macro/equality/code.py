"""Hash of the code for which a proof of equal work holds: adapters, macro/agent and kernels."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

AGENT, ADAPTERS = (Path(__file__).parents[1] / name for name in ("agent", "frameworks"))
KERNELS = Path(__file__).parents[2] / "kernels"
IMPORT = re.compile(rf"^\s*(from (\w+\.)?{KERNELS.name}\b|import suite_)", re.MULTILINE)


@cache
def digest(adapter: Path) -> str:
    """Return the hash of all code that may run with an adapter; kernels/ counts only if it is imported."""
    hashed = hashlib.sha256(adapter.read_bytes())
    uses_kernels = adapter.parent != ADAPTERS or IMPORT.search(adapter.read_text("utf-8"))
    for folder in (AGENT, ADAPTERS, *([KERNELS] if uses_kernels else [])):
        for path in sorted(x for x in folder.rglob("*.[pc]*") if x.suffix in (".py", ".c", ".cu")):
            hashed.update(path.read_bytes())
    return hashed.hexdigest()
