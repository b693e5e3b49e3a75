"""Parts of this installation that may cost time, each with the command that measures the cost."""

from __future__ import annotations

from collections.abc import Iterator

from kernels.doctor.survey import Inventory
from kernels.isa import FAMILIES

VENDOR = "GenuineIntel"  # of processors and of MKL
GEMM = "python -m micro.gemm --m 256 --n 2048 --k 2048 --trans nn"
CAPS = (
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_MAX_CPU_ISA",
    "ATEN_CPU_CAPABILITY",
    "MKL_DEBUG_CPU_TYPE",
)
WIDE = "avx512"


def remarks(inventory: Inventory) -> list[tuple[str, str]]:
    """Return the subject and the text of each remark."""
    return [*_mkl(inventory), *_openblas(inventory), *_system(inventory)]


def _isa(inventory: Inventory) -> list[str]:
    return list(inventory.devices["cpu"].get("isa") or ())


def _mkl(inventory: Inventory) -> Iterator[tuple[str, str]]:
    torch, mkl = inventory.packages.get("torch"), inventory.libraries.get("MKL")
    inside = [name for name, part in (("torch", torch), ("mkl", mkl)) if part is not None and part.here]
    vendor = inventory.devices["cpu"].get("vendor")
    if inside and vendor not in (None, "unknown", VENDOR) and "sse" in _isa(inventory):
        yield (
            "MKL",
            f"this processor is {vendor}'s, and MKL has its best kernels for its own vendor's: {GEMM} "
            f"--variant {inside[0]} --vary preload --preload none,mkl-intel",
        )


def _openblas(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Yield a remark on kernels set by a variable, or kernels below the processor's instruction set."""
    blas = inventory.libraries.get("OpenBLAS of numpy")
    if blas is None or not blas.here or not blas.kernels:
        return
    command = f"{GEMM} --variant openblas --vary isa --isa default,"
    if blas.asked:
        best = WIDE if WIDE in _isa(inventory) else "avx2"
        yield "OpenBLAS", f"OPENBLAS_CORETYPE={blas.asked} chooses its kernels: {command}{best}"
    elif WIDE in _isa(inventory) and FAMILIES.get(blas.kernels) not in (None, WIDE):
        yield "OpenBLAS", f"it takes {blas.kernels} kernels ({blas.isa}), and there is {WIDE}: {command}{WIDE}"


def _system(inventory: Inventory) -> Iterator[tuple[str, str]]:
    """Yield remarks on variables, malloc and huge pages."""
    if (about := inventory.system) is None:
        return
    for name in CAPS:
        if value := about.variables.get(name):
            yield (
                "instructions",
                f"{name}={value} limits what a library may use; without it: env -u {name} {GEMM} --variant torch,mkl",
            )
    if about.malloc == "glibc" and not about.malloc_variables:
        yield "malloc", "it gives large freed blocks back, and they fault in anew: python -m micro.memory --allocator"
    if about.huge_pages == "never":
        yield "huge pages", "transparent ones are off: python -m micro.memory --allocator, once they are on"
