"""CUDA C files compiled to cubins (cached as by `build`), and their kernels' resources and geometry."""

from __future__ import annotations

import functools
import os
import re
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from kernels import build
from kernels.errors import BuildError, Unavailable

if TYPE_CHECKING:
    import subprocess

FLAGS = ("-cubin", "-O3", "-Werror", "all-warnings", "-Xptxas", "-v")
TOOLKIT = Path("/usr/local/cuda/bin/nvcc")
PATIENCE = 300.0  # seconds for one file; the slowest takes about ten
REMEDY = "install a CUDA toolkit (https://developer.nvidia.com/cuda-downloads), or set NVCC to its nvcc"

Argument: TypeAlias = (
    tuple[Literal["operand"], str] | tuple[Literal["workspace", "int64"], int] | tuple[Literal["float32"], float]
)
Triple: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Geometry:
    """One launch of one kernel: blocks, threads of a block, bytes of dynamic shared memory, arguments.

    An argument is a pair of kind and value: an operand's name stands for its address, a workspace's size in bytes for
    the address of a block that all launches of a problem share, and a number for itself."""

    kernel: str
    grid: Triple
    block: Triple
    arguments: tuple[Argument, ...]
    shared: int = 0
    arch: str = ""  # the only architecture that the source supports, such as sm_90a; "": the device's


@dataclass(frozen=True, slots=True)
class Resources:
    """Registers and memory that ptxas assigned to a kernel."""

    registers: int  # per thread
    spill_stores: int  # bytes per thread, as are spill_loads and stack
    spill_loads: int
    stack: int
    shared: int  # static bytes per block


def over(
    kernel: str, blocks: int, threads: int, operands: Iterable[str], *rest: Argument | float, arch: str = ""
) -> Geometry:
    """Return a one-dimensional launch on operands, then `rest` (int as int64, float as float32)."""
    places: Iterator[Argument] = (("operand", name) for name in operands)
    passed: Iterator[Argument] = (
        x if isinstance(x, tuple) else ("float32", x) if isinstance(x, float) else ("int64", x) for x in rest
    )
    return Geometry(kernel, (blocks, 1, 1), (threads, 1, 1), (*places, *passed), arch=arch)


def find() -> Path | None:
    """Return nvcc's path, or None: $NVCC if set; else from PATH, $CUDA_HOME, /usr/local/cuda or a wheel."""
    import shutil  # imported here, as below, because plans do not need it

    asked = os.environ.get("NVCC")
    places = (asked,) if asked else _places()
    return next((Path(path) for place in places if (path := shutil.which(place))), None)


def _places() -> Iterator[str | Path]:
    yield "nvcc"
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")):
        if home:
            yield Path(home, "bin/nvcc")
    yield TOOLKIT
    wheel = find_spec("nvidia")
    for folder in (wheel and wheel.submodule_search_locations) or ():
        yield from sorted(Path(folder).glob("*/bin/nvcc"))


def missing() -> str | None:
    """Return why CUDA files cannot be compiled here, with the remedy, or None if nvcc is here."""
    if find():
        return None
    asked = os.environ.get("NVCC")
    return f"NVCC={asked} is not a program: {REMEDY}" if asked else f"no nvcc: {REMEDY}"


@functools.cache
def version(path: Path) -> str:
    """Return the line of `nvcc --version` that names the release and the build."""
    import subprocess

    reply = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return reply.stdout.strip().rpartition("\n")[2]


def cubin(source: Path, arch: str) -> Path:
    """Compile a CUDA file for `arch`, such as sm_90; return the cubin. Raises BuildError, Unavailable."""
    path = find()
    if path is None:
        raise Unavailable(missing())
    command = [str(path), *FLAGS, f"-arch={arch}"]
    return build.cached(
        source,
        (*command, version(path)),
        f"{source.stem}-{arch}-{{}}.cubin",
        partial(_compile, command),
        there=lambda target: target.exists() and _words(target).exists(),
    )


def resources(source: Path, arch: str) -> dict[str, Resources]:
    """Return the resources of a CUDA file's kernels on `arch`. Raises BuildError, Unavailable."""
    return read(_words(cubin(source, arch)).read_text("utf-8"))


def read(text: str) -> dict[str, Resources]:
    """Parse the output of `ptxas -v` into resources by kernel. Raises BuildError."""
    by_kernel = {}
    for part in text.split("Compiling entry function '")[1:]:
        name = part.partition("'")[0]
        by_kernel[name] = Resources(
            registers=_number(r"Used (\d+) registers", part),
            spill_stores=_number(r"(\d+) bytes spill stores", part),
            spill_loads=_number(r"(\d+) bytes spill loads", part),
            stack=_number(r"(\d+) bytes stack frame", part),
            shared=_number(r"(\d+) bytes smem", part, absent=0),
        )
    return by_kernel


def _number(pattern: str, text: str, absent: int | None = None) -> int:
    match = re.search(pattern, text)
    if match is None and absent is None:
        raise BuildError(f"the output of ptxas -v does not match {pattern!r}: its format has changed")
    return int(match[1]) if match else absent or 0


def _words(target: Path) -> Path:
    """Return the path of a cubin's compiler log."""
    return target.with_suffix(".ptxas")


def _compile(command: list[str], source: Path, target: Path) -> None:
    """Compile under temporary names and rename, so that a reader never finds half a file."""
    import subprocess
    import tempfile

    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        binary, log = Path(folder) / "made.cubin", Path(folder) / "said.ptxas"
        words = [*command, str(source), "-o", str(binary)]
        try:
            compilation = _ran(words)
        except subprocess.TimeoutExpired:
            raise BuildError(f"{command[0]} did not compile {source.name} within {PATIENCE:.0f} s") from None
        if compilation.returncode:
            lines = (compilation.stderr + compilation.stdout).splitlines()
            complaint = next((x for x in lines if "error" in x or "fatal" in x), "".join(lines)[:200])
            raise BuildError(f"{source.name} does not compile for {command[-1]}: {complaint}")
        log.write_text(compilation.stdout + compilation.stderr, "utf-8")
        os.replace(log, _words(target))
        os.replace(binary, target)


def _ran(words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the compiler; on a timeout or signal kill it with its child processes. Raises TimeoutExpired."""
    import subprocess

    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as compiler:
        try:
            stdout, stderr = compiler.communicate(timeout=PATIENCE)
        except BaseException:
            os.killpg(compiler.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(words, compiler.returncode, stdout, stderr)
