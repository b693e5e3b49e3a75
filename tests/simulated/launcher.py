"""Our .cu files on the CPU: compiled behind shim.h, launched as their gpu.py says, operands between guards."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
import mmap
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.dtypes import BYTES, STORED, decode, encode
from kernels.nvcc import Geometry
from kernels.problem import Operand
from tests import builds

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
    made = builds.kept() / key
    if not made.exists():
        with tempfile.TemporaryDirectory(dir=builds.kept()) as folder:
            source, out = Path(folder) / "kernels.cc", Path(folder) / "made"
            source.write_text(text)
            command = ["g++", *flags, str(source), "-o", str(out)]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, ran.stderr
            out.replace(made)
    return made


HEADER = Path(__file__).with_name("ptx.h")
TOKEN = re.compile(r'\basm volatile\(|"(?:\\.|[^"\\\n])*"|.', re.DOTALL)  # a string is one
ROLES = ((r'"\+[rfl]"\(', "ptx_inout("), (r'"=[rfl]"\(', "ptx_out("), (r'"[rfl]"\(', "ptx_in("))


def with_ptx(source: str) -> str:
    """Return the file with every `asm volatile(text : outputs : inputs : clobbers)` as a call without the clobbers.

    In front of it stands the header that defines the call; a file without assembly is left as it is. Lines stay where
    they are.
    """
    if "asm volatile(" not in source:
        return source
    for constraint, role in ROLES:
        source = re.sub(constraint, role, source)
    made, parts, depth = [], [""], 0
    for token in TOKEN.findall(source):
        if token.startswith("asm"):
            parts, depth = [""], 1
            continue
        depth += {"(": 1, ")": -1}.get(token, 0) if depth else 0
        if depth == 1 and token == ":":
            parts.append("")
        elif depth:
            parts[-1] += token
        elif parts[0]:  # this token closes it
            made.append(f"ptx_run({', '.join(part for part in parts[:3] if part.strip())})")
            parts = [""]
        else:
            made.append(token)
    if depth:
        raise ValueError(f"asm volatile( is not closed: {parts[0][:40]!r}")
    return f'#include "{HEADER}"\n#line 1\n{"".join(made)}'


if TYPE_CHECKING:
    from kernels.problem import Arrays

SHIM = Path(__file__).with_name("shim.h")
TRAPS = "-fsanitize=bounds-strict,alignment,signed-integer-overflow,shift"
UNWARNED = ("unknown-pragmas", "unused-function", "unused-variable", "clobbered", "address")
PLAIN = ("-std=c++17", "-O1", "-Wall", *(f"-Wno-{name}" for name in UNWARNED), "-fno-math-errno")
FLAGS = (*PLAIN, "-g0", "-fPIC", "-shared", TRAPS, "-fsanitize-undefined-trap-on-error")
KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^()]*\)\s+)?(\w+)\(')
QUIET_NAN = 0xFFC00000  # a guard's word, and in its low bits which guard and where: a copy of another shows
PAGE = mmap.PAGESIZE
NO_RESERVE = 0x4000  # MAP_NORESERVE of Linux: in Python's mmap from 3.12 on
FENCE = 1 << 24  # bytes on either side that nobody may touch: address space alone
NUMBERS: dict[str, Any] = {"int64": ctypes.c_int64, "float32": ctypes.c_float}
SERIAL = itertools.count(1, 7919)
LIBC = ctypes.CDLL(None, use_errno=True)


def missing() -> str | None:
    """Why nothing can be run here."""
    return None if shutil.which("g++") else "no g++: apt-get install g++"


class LaunchFailed(Exception):
    """What the shim found wrong with a launch, or the guards after it."""


def names(source: str) -> list[str]:
    """The kernels of a file."""
    return KERNEL.findall(source)


@functools.cache
def load(source: str) -> ctypes.CDLL:
    """A CUDA file's text, compiled for the CPU and loaded."""
    entries = "\n".join(f"ENTRY({name})" for name in names(source))
    text = f'#include "{SHIM}"\n#line 1\n{with_ptx(source)}\n{entries}\n'
    return ctypes.CDLL(str(compiled(text, FLAGS)))


@dataclass
class Block:
    """Memory between two guard zones, and those between two fences.

    Its end lies at the fence, or less than `align` bytes before it.
    """

    size: int
    align: int = 4
    map: mmap.mmap = field(init=False)
    address: int = field(init=False)

    def __post_init__(self) -> None:
        whole = -(-(self.size + 64) // PAGE) * PAGE  # at least 64 bytes of guard in front
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
        self.map = mmap.mmap(-1, FENCE + whole + FENCE, kind)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for fence in (base, base + FENCE + whole):
            assert LIBC.mprotect(ctypes.c_void_p(fence), ctypes.c_size_t(FENCE), 0) == 0
        self.words = np.frombuffer(self.map, np.uint32, whole // 4, FENCE)
        self.guard = (QUIET_NAN | (np.arange(len(self.words)) + next(SERIAL)) % (1 << 20)).astype(np.uint32)
        self.words[:] = self.guard
        self.begin = (whole - self.size) // self.align * self.align // 4
        self.address = base + FENCE + 4 * self.begin

    @property
    def inside(self) -> np.ndarray[Any, Any]:
        return self.words[self.begin : self.begin + self.size // 4].view(np.float32)

    def intact(self, written: np.ndarray[Any, Any] | None = None) -> bool:
        """Whether the guards are as they were, and what of the block is not `written`."""
        guard = self.words == self.guard
        guard[self.begin : self.begin + self.size // 4] |= True if written is None else written
        return bool(guard.all())


def launch(
    source: str,
    geometries: Sequence[Geometry],
    operands: Sequence[Operand],
    x: Arrays,
    *,
    align: int = 4,
    backward: bool = False,
) -> dict[str, np.ndarray[Any, Any]]:
    """Every operand as the launches left it. Outputs start as NaN, and so does the padding of every row."""
    blocks, rows = {}, {}
    for one in operands:
        block = blocks[one.name] = Block(one.nbytes, max(align, BYTES[one.dtype]))
        rows[one.name] = block.inside.view(STORED[one.dtype]).reshape(-1, one.ld)[:, : one.shape[-1]]
        if one.role != "out":
            rows[one.name][...] = encode(x[one.name].reshape(rows[one.name].shape), one.dtype)
    sizes = [value for g in geometries for kind, value in g.arguments if kind == "workspace"]
    if sizes:
        blocks[""] = Block(int(max(sizes)), align)
    before = {one.name: rows[one.name].copy() for one in operands if one.role == "in"}
    for geometry in geometries:
        _launch(source, geometry, {name: block.address for name, block in blocks.items()}, backward)
    for one in operands:
        inside = np.zeros((rows[one.name].shape[0], one.ld), bool)
        inside[:, : one.shape[-1]] = True
        size = rows[one.name].itemsize  # guards are of words
        words = np.repeat(inside.ravel(), max(1, size // 4)).reshape(-1, max(1, 4 // size))
        if not blocks[one.name].intact(words.any(axis=1)):
            raise LaunchFailed(f"writes outside {one.name}")
    if "" in blocks and not blocks[""].intact():
        raise LaunchFailed("writes outside its workspace")
    if changed := [name for name, old in before.items() if not np.array_equal(old, rows[name])]:
        raise LaunchFailed(f"changes its input {changed[0]}")
    return {name: decode(array) if array.dtype == np.uint16 else array.copy() for name, array in rows.items()}


def _launch(source: str, geometry: Geometry, addresses: Mapping[str, int], backward: bool) -> None:
    entry = getattr(load(source), f"launch_{geometry.kernel}")
    entry.restype = ctypes.c_char_p
    values = [
        ctypes.c_void_p(addresses[str(value) if kind == "operand" else ""])
        if kind in ("operand", "workspace")
        else NUMBERS[kind](value)
        for kind, value in geometry.arguments
    ]
    places = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    triple = ctypes.c_uint * 3
    told = entry(triple(*geometry.grid), triple(*geometry.block), int(backward), places, len(values))
    if told:
        raise LaunchFailed(told.decode())
