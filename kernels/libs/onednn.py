"""oneDNN's C API from the wheel onednn-cpu-gomp 2023.1.0 (oneDNN 3.1), the last with Winograd."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernels.errors import Unavailable
from kernels.libs.cblas import Blas
from kernels.provider import Provider

PACKAGE = "onednn-cpu-gomp"
PIN = f"{PACKAGE}==2023.1.0"
# Constants of dnnl_types.h, the same in every oneDNN 3.
F32, ANY, CPU, IN_ORDER, USER, FORWARD = 3, 1, 1, 1, 1, 64
SRC, DST, WEIGHTS, SCRATCHPAD = 1, 17, 33, 80
DIFF_SRC, DIFF_DST, DIFF_WEIGHTS = 129, 145, 161
ALGORITHMS = {"direct": 1, "winograd": 2, "auto": 3}
IMPLEMENTATION, BY_ARGUMENT = 8, 255  # dnnl_query_impl_info_str, dnnl_query_exec_arg_md
UNIMPLEMENTED = 3
TAGS = 1000  # more than the named layouts
POINTER = ctypes.c_void_p
Dims = ctypes.c_int64 * 12
EFFECTIVE = ((0x27, "avx512"), (0x7, "avx2"), (0x3, "avx"), (0x1, "sse4.2"))  # bits of dnnl_cpu_isa_t
ISA = {"avx512": "avx512", "avx2": "avx2", "avx": "avx", "sse41": "sse4.2"}  # oneDNN's word, and --isa's


def missing() -> str | None:
    """Return why oneDNN is missing, or None if it is installed; does not load it."""
    return None if _path() else f"{PACKAGE} is not installed: pip install {PIN}"


@functools.cache
def _path() -> Path | None:
    """Return the path of this wheel's libdnnl, or None; other packages may bring other versions.

    The search avoids importlib.metadata, which would take a tenth of a benchmark's start."""
    for place in map(Path, sys.path):
        for record in place.glob(f"{PACKAGE.replace('-', '_')}-*.dist-info/RECORD"):
            files = (line.partition(",")[0] for line in record.read_text("utf-8").splitlines())
            paths = ((place / file).resolve() for file in files if re.search(r"libdnnl\.so\.3\.\d+$", file))
            if (path := next((path for path in paths if path.exists()), None)) is not None:
                return path
    return None


def _isa(implementation: str) -> str | None:
    """Return the instruction set in an implementation's name, or None."""
    return next((isa for word, isa in ISA.items() if word in implementation), None)


def named(library: str, implementation: str, reorders: int) -> tuple[str, str | None]:
    """Return a variant's `kernel`: an implementation's name with its number of reorders, instruction set."""
    copies = f", {reorders} reorder{'s' if reorders > 1 else ''}" if reorders else ""
    return f"{library} {implementation}{copies}", _isa(implementation)


class Handle:
    """A oneDNN object, destroyed with its handle; `needs` holds the objects that must live as long."""

    def __init__(self, place: ctypes.c_void_p, destroy: Any, needs: tuple[object, ...] = ()) -> None:
        self.place, self.needs, self._destroy = place, needs, destroy

    def __del__(self) -> None:
        self._destroy(self.place)


class OneDnn:
    """The oneDNN library, with an engine and a stream on this processor."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        version = library["dnnl_version"]
        version.restype = ctypes.POINTER(ctypes.c_int * 3)
        self.version = "oneDNN " + ".".join(map(str, version().contents))
        # With the cache, a second description of a problem would offer only the implementation of the first.
        library["dnnl_set_primitive_cache_capacity"](0)
        self.engine = self.create("engine", "create", CPU, ctypes.c_size_t(0))
        self.stream = self.create("stream", "create", self.engine.place, IN_ORDER)
        self.attributes = self.create("primitive_attr", "create")
        library["dnnl_primitive_attr_set_scratchpad_mode"](self.attributes.place, USER)

    def create(self, kind: str, how: str, *arguments: Any, needs: tuple[object, ...] = ()) -> Handle:
        """Call dnnl_KIND_HOW and return its object. Raises Unavailable."""
        return self._new(kind, f"{kind}_{how}", arguments, needs)

    def _new(self, kind: str, function: str, arguments: tuple[Any, ...], needs: tuple[object, ...]) -> Handle:
        place = POINTER()
        if status := self.library[f"dnnl_{function}"](ctypes.byref(place), *arguments):
            if status == UNIMPLEMENTED:
                raise Unavailable(f"{self.version} has no such kernel for this problem and instruction set")
            raise Unavailable(f"{self.version}: dnnl_{function} returned status {status}")
        return Handle(place, self.library[f"dnnl_{kind}_destroy"], needs)

    def limit(self, threads: int) -> None:
        """Set the threads of GNU's OpenMP, which oneDNN uses. Raises Unavailable if OpenMP runs others."""
        self.library["omp_set_num_threads"](threads)
        if (there := self.library["omp_get_max_threads"]()) != threads:
            raise Unavailable(f"{self.version} runs {there} threads instead of {threads}")

    def address(self, function: str) -> int:
        """Return the address of dnnl_FUNCTION, for a compiled caller."""
        place = ctypes.cast(self.library[f"dnnl_{function}"], POINTER).value
        assert place is not None
        return place

    def unset(self, dims: Sequence[int]) -> Handle:
        """Return a memory description in single precision, whose layout an implementation chooses."""
        return self.create("memory_desc", "create_with_tag", len(dims), Dims(*dims), F32, ANY)

    def strided(self, dims: Sequence[int], strides: Sequence[int]) -> Handle:
        return self.create("memory_desc", "create_with_strides", len(dims), Dims(*dims), F32, Dims(*strides))

    def blocked(self, dims: Sequence[int], tag: str) -> Handle:
        """Return a memory description of the layout `tag`, whose enum value differs between versions."""
        return self.create("memory_desc", "create_with_tag", len(dims), Dims(*dims), F32, self._tag(tag))

    def _tag(self, tag: str) -> int:
        name = self.library["dnnl_fmt_tag2str"]
        name.restype = ctypes.c_char_p
        return next(number for number in range(TAGS) if name(number) == tag.encode())

    def describe(self, kind: str, *arguments: Any) -> Handle:
        """Return the description of a primitive: convolution_forward, lstm_backward, …; None: no such operand."""
        values = [x.place if isinstance(x, Handle) else x for x in arguments]
        function = f"{kind}_primitive_desc_create"
        return self._new("primitive_desc", function, (self.engine.place, *values, self.attributes.place), arguments)

    def reorder(self, source: ctypes.c_void_p, target: ctypes.c_void_p) -> Handle:
        """Return the primitive description of a copy into another layout."""
        engine = self.engine.place
        arguments = (source, engine, target, engine, self.attributes.place)
        return self._new("primitive_desc", "reorder_primitive_desc_create", arguments, ())

    def another(self, description: Handle) -> bool:
        """Advance a description to the next implementation; return whether there is one."""
        return not self.library["dnnl_primitive_desc_next_impl"](description.place)

    def implementation(self, description: Handle) -> str:
        name = ctypes.c_char_p()
        self.library["dnnl_primitive_desc_query"](description.place, IMPLEMENTATION, 0, ctypes.byref(name))
        assert name.value is not None
        return name.value.decode()

    def layout(self, description: Handle, argument: int) -> ctypes.c_void_p:
        """Return the memory description of an argument, valid while its primitive description lives."""
        query = self.library["dnnl_primitive_desc_query_md"]
        query.restype = POINTER
        return POINTER(query(description.place, BY_ARGUMENT, argument))

    def same(self, a: ctypes.c_void_p, b: ctypes.c_void_p) -> bool:
        return bool(self.library["dnnl_memory_desc_equal"](a, b))

    def size(self, layout: ctypes.c_void_p) -> int:
        """Return the bytes of a layout."""
        size = self.library["dnnl_memory_desc_get_size"]
        size.restype = ctypes.c_size_t
        return int(size(layout))

    def memory(self, layout: ctypes.c_void_p, address: int = 0) -> Handle:
        """Return a memory object at `address`; 0: the address is set later."""
        return self.create("memory", "create", layout, self.engine.place, POINTER(address))

    def primitive(self, description: Handle) -> Handle:
        return self.create("primitive", "create", description.place, needs=(description,))


@functools.cache
def blas() -> Blas:
    """Return oneDNN as a BLAS of dnnl_sgemm alone, which TensorFlow calls. Raises Unavailable."""
    dnn, path = load(), _path()
    assert path is not None
    return Blas(
        name="oneDNN",
        path=path,
        version=dnn.version,
        kernels=None,  # it names none
        isa=next((isa for bits, isa in EFFECTIVE if dnn.library["dnnl_get_effective_cpu_isa"]() & bits == bits), None),
        wide=True,
        sgemm=dnn.address("sgemm"),
        omatcopy=None,
        set_threads=dnn.library["omp_set_num_threads"],
        get_threads=dnn.library["omp_get_max_threads"],
    )


@functools.cache
def load() -> OneDnn:
    """Load oneDNN. Raises Unavailable."""
    path = _path()
    if path is None:
        raise Unavailable(missing() or "")
    try:
        # The wheel's symbols take precedence over PyTorch's, of another oneDNN and another OpenMP.
        return OneDnn(ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_DEEPBIND))
    except (OSError, AttributeError) as error:
        raise Unavailable(
            f"{PACKAGE} is installed but cannot be used ({error}): pip install --force-reinstall {PIN}"
        ) from None


ONEDNN = Provider("onednn", missing=missing)
