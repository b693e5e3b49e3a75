"""OpenBLAS as the NumPy and SciPy wheels bundle it, through its exported cblas_sgemm.

NumPy's wheel exports `scipy_cblas_sgemm64_` (64-bit integers), SciPy's `scipy_cblas_sgemm` (32-bit): two libraries
with two thread pools. A distribution's own OpenBLAS has plain names."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from functools import partial
from pathlib import Path

from kernels.errors import Unavailable
from kernels.isa import FAMILIES
from kernels.libs.cblas import Blas, address, describe, symbol
from kernels.provider import Provider


def missing(owner: str) -> str | None:
    """Return why the package `owner` has no OpenBLAS, or None if it has; import nothing."""
    if path(owner) is None:
        return f"this {owner} does not bundle OpenBLAS: install the wheel (pip install {owner})"
    return None


@functools.cache
def path(owner: str) -> Path | None:
    """Return the file of `owner`'s OpenBLAS, or None if it bundles none."""
    spec = importlib.util.find_spec(owner)
    if spec is None or spec.origin is None:
        return None
    site = Path(spec.origin).parents[1]
    files = sorted((site / f"{owner}.libs").glob("*openblas*"))
    files += sorted((site / owner / ".dylibs").glob("*openblas*"))  # macOS wheels
    return files[0] if files else None


@functools.cache
def load(owner: str) -> Blas:
    """Load the OpenBLAS bundled with "numpy" or "scipy". Raises Unavailable."""
    file = path(owner)
    if file is None:
        raise Unavailable(missing(owner) or "")
    library = ctypes.CDLL(str(file))
    for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
        sgemm = symbol(library, [f"{prefix}cblas_sgemm{suffix}"])
        if sgemm:
            break
    else:
        raise Unavailable(f"{file.name} exports no known symbol of cblas_sgemm")

    def get(name: str) -> ctypes._NamedFuncPointer:
        return library[f"{prefix}openblas_{name}{suffix}"]

    def text(name: str) -> str:
        function = get(name)
        function.restype = ctypes.c_char_p
        words: bytes = function()
        return words.decode()

    core = text("get_corename")
    copy = symbol(library, [f"{prefix}cblas_somatcopy{suffix}"])
    cgemm = symbol(library, [f"{prefix}cblas_cgemm{suffix}"])
    return Blas(
        name=f"OpenBLAS of {owner}",
        path=file,
        version=" ".join(text("get_config").split()[:2]),
        kernels=core,
        isa=FAMILIES.get(core),
        wide=suffix == "64_",
        sgemm=address(sgemm[1]),
        omatcopy=address(copy[1]) if copy else None,
        set_threads=get("set_num_threads"),
        get_threads=get("get_num_threads"),
        cgemm=address(cgemm[1]) if cgemm else None,
    )


OPENBLAS = Provider("openblas", missing=partial(missing, "numpy"), kernel=describe(partial(load, "numpy")))
OPENBLAS_SCIPY = Provider("openblas-scipy", missing=partial(missing, "scipy"), kernel=describe(partial(load, "scipy")))
