"""Stubs of shared libraries, such as libmpi.so.12, for frameworks that are linked to them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

from kernels.errors import Unavailable

SOURCE = """\
#include <stdlib.h>
#include <unistd.h>
static const char SAID[] = "LIBRARY is a stub here\\n";
void *kernelgap_stub(void) { if (write(2, SAID, sizeof SAID - 1)) {} abort(); }
"""


def make(environment: Path, library: str, recipe: dict[str, str]) -> int:
    """Compile a stub into the framework's folder; return its number of symbols. Raises Unavailable.

    `recipe`: `folder` below site-packages; `symbols`, a pattern of the symbols to define; `data`, a pattern of those
    that are zeroed data. The other symbols are functions that print the stub's name and abort.
    """
    packages = next(environment.glob("lib/python3*/site-packages"))
    place = packages / recipe["folder"]
    wanted = sorted(
        x for x in undefined([*packages.glob("*.so"), *place.glob("*.so")]) if re.match(recipe["symbols"], x)
    )
    if not place.is_dir() or not wanted:
        raise Unavailable(f"no library in the environment needs {library}: the recipe does not fit its packages")
    lines = [SOURCE.replace("LIBRARY", library)]
    for name in wanted:
        if re.match(recipe["data"], name):
            lines.append(f"char {name}[4096];\n")
        else:
            lines.append(f'void *{name}(void) __attribute__((alias("kernelgap_stub")));\n')
    with tempfile.TemporaryDirectory(prefix="kernelgap-stub-") as folder:
        source = Path(folder) / "stub.c"
        source.write_text("".join(lines), "utf-8")
        options = ["-shared", "-fPIC", "-w", f"-Wl,-soname,{library}"]
        _run(["gcc", *options, "-o", place / library, source], f"the stub of {library}")
    return len(wanted)


def undefined(objects: list[Path]) -> set[str]:
    """Return the names that these shared objects leave undefined."""
    if not objects:
        return set()
    listing = _run(["nm", "-D", "--undefined-only", *objects], "the symbols of the framework's libraries")
    return set(re.findall(r"^\s+[Uvw] ([A-Za-z_]\w*)", listing, re.MULTILINE))


def _run(words: list[str | Path], what: str) -> str:
    try:
        completed = subprocess.run(words, capture_output=True, text=True)
    except OSError:
        raise Unavailable(f"{what}: {words[0]} not found: apt-get install gcc") from None
    if completed.returncode:
        raise Unavailable(
            f"{what}: {words[0]} fails: {(completed.stderr.strip().splitlines() or ['no output'])[-1][:300]}"
        )
    return completed.stdout
