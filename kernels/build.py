"""C source files compiled to shared objects, cached by content, flags, compiler and processor."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from kernels import state
from kernels.errors import BuildError, Unavailable

FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-std=gnu11", "-Wall", "-Werror")
# -Bsymbolic binds calls within a file to that file, although MKL, once loaded, exports a saxpy to every library.
SHARED = ("-shared", "-fPIC", *(() if sys.platform == "darwin" else ("-Wl,-Bsymbolic",)))


@functools.cache
def compiler() -> tuple[str, str]:
    """Return the C compiler's path and the first line of its version. Raises Unavailable."""
    import shutil  # imported here, as below, because plans do not need it
    import subprocess

    for name in (os.environ.get("CC"), "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path:
            reply = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
            return path, reply.stdout.partition("\n")[0]
    raise Unavailable("no C compiler found: install one (Debian: apt-get install gcc) or set CC")


@functools.cache
def processor() -> str:
    """Return the processor's model and feature flags, on which `-march=native` depends."""
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:
        import platform

        return platform.processor()
    wanted = ("model name", "flags", "Features", "CPU part")
    return "\n".join(line for line in lines if line.startswith(wanted))


def shared(source: Path, flags: tuple[str, ...] = ()) -> Path:
    """Compile one C file into a shared object and return its path. Raises BuildError, Unavailable."""
    path, version = compiler()
    command = [path, *FLAGS, *flags, *SHARED]
    return cached(source, (*command, version, processor()), f"{source.stem}-{{}}.so", partial(_compile, command))


def cached(
    source: Path,
    words: Sequence[str],
    name: str,
    compile_to: Callable[[Path, Path], None],
    there: Callable[[Path], bool] = Path.exists,
) -> Path:
    """Return the file that `compile_to(source, target)` writes, cached by source content and `words`.

    `{}` in `name` stands for the digest of content and words; `there` tests whether a target is complete. Raises
    BuildError if the disk is full or read-only, and whatever `compile_to` raises."""
    import hashlib

    key = "\0".join((source.read_text("utf-8"), *words))
    target = state.folder() / "build" / name.format(hashlib.sha256(key.encode()).hexdigest()[:24])
    if not there(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            compile_to(source, target)
        except OSError as error:  # a full disk, a folder made read-only since
            raise BuildError(f"{source.name} cannot be built in {target.parent}: {error.strerror}") from None
    return target


def _compile(command: list[str], source: Path, target: Path) -> None:
    import subprocess
    import tempfile

    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".so")
    os.close(handle)
    try:
        compilation = subprocess.run(
            [*command, str(source), "-o", temporary, "-lm"], capture_output=True, text=True, check=False
        )
        if compilation.returncode:
            complaint = next((x for x in compilation.stderr.splitlines() if "error" in x), compilation.stderr[:200])
            raise BuildError(f"{source.name} does not compile: {complaint}")
        os.chmod(temporary, 0o700)
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)


@functools.cache
def load(source: Path, flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Compile a C file and load it, once per source and flags. Raises BuildError, Unavailable."""
    path = shared(source, flags)
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # damaged since it was built
        path.unlink()
        return ctypes.CDLL(str(shared(source, flags)))


def address(source: Path, symbol: str, flags: tuple[str, ...] = ()) -> int:
    """Return the address of a C file's function, compiled and loaded, for a caller in C."""
    place = ctypes.cast(getattr(load(source, flags), symbol), ctypes.c_void_p).value
    assert place is not None
    return place
