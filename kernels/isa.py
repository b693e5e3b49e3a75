"""Instruction sets of libraries, selected by environment variables read at load, and verified.

Verification uses a library's own report, because MKL silently ignores its variable on AMD."""

from __future__ import annotations

from kernels.errors import UsageError

FAMILIES = {  # OpenBLAS's kernel families (DYNAMIC_ARCH), and their instruction sets
    "Prescott": "sse3",
    "Katmai": "sse",
    "Core2": "ssse3",
    "Nehalem": "sse4.2",
    "Sandybridge": "avx",
    "Haswell": "avx2",
    "Zen": "avx2",
    "SkylakeX": "avx512",
    "Cooperlake": "avx512",
    "SapphireRapids": "avx512",
    "ARMV8": "neon",
    "NEOVERSEN1": "neon",
    "NEOVERSEV1": "sve",
    "NEOVERSEN2": "sve",
}
SETS = {  # each library's environment variable, and its name for the set
    "sse4.2": {
        "OPENBLAS_CORETYPE": "Nehalem",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
    },
    "avx": {"OPENBLAS_CORETYPE": "Sandybridge", "ONEDNN_MAX_CPU_ISA": "AVX", "ATEN_CPU_CAPABILITY": "default"},
    "avx2": {
        "OPENBLAS_CORETYPE": "Haswell",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
    },
    "avx512": {
        "OPENBLAS_CORETYPE": "SkylakeX",
        "MKL_ENABLE_INSTRUCTIONS": "AVX512",
        "ONEDNN_MAX_CPU_ISA": "AVX512_CORE",
        "ATEN_CPU_CAPABILITY": "avx512",
    },
}
MARCH = {  # flags by which gcc and clang generate exactly these instructions
    "sse4.2": ("-march=x86-64-v2",),
    "avx": ("-march=x86-64-v2", "-mavx"),
    "avx2": ("-march=x86-64-v3",),
    "avx512": ("-march=x86-64-v4", "-mprefer-vector-width=512"),
}
BITS = {"sse4.2": 128, "avx": 256, "avx2": 256, "avx512": 512}  # of a register


def variables(asked: str) -> dict[str, str]:
    """Return the variables that select an instruction set or an OpenBLAS family. Raises UsageError."""
    if asked == "default":
        return {}
    if asked in SETS:
        return SETS[asked]
    if asked in FAMILIES:
        return {"OPENBLAS_CORETYPE": asked}
    raise UsageError(f"--isa {asked}: choose from default, {', '.join(SETS)}; for OpenBLAS also {', '.join(FAMILIES)}")


def refusal(asked: str, kernel: str | None, observed: str | None) -> str | None:
    """Return why a library that reports `kernel` and `observed` lacks the requested set, or None."""
    if asked == "default":
        return None
    if observed is None:
        return f"--isa {asked} is not available: the library does not report the instructions it uses"
    if asked in FAMILIES:
        return None if asked in (kernel or "").split() else f"--isa {asked} is not available: the library uses {kernel}"
    return None if observed == asked else f"--isa {asked} is not available: the library uses {observed} ({kernel})"
