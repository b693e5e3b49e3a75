"""An application's products, from what its library logged: MKL_VERBOSE, cuBLAS's log, ONEDNN_VERBOSE.

A BLAS logs its column-major call: sgemm(ta, tb, m, n, k) is row-major M = n, N = m with the flags exchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kernels.ops.gemm.problem import Gemm

MKL = re.compile(
    r"MKL_VERBOSE SGEMM\(([NTC]),([NTC]),(\d+),(\d+),(\d+),"
    r"[^,]+,[^,]+,(\d+),[^,]+,(\d+),[^,]+,[^,]+,(\d+)\)"
)
CUBLAS = re.compile(r"I! cuBLAS .* function cublasStatus_t cublas(Sgemm_v2|GemmEx)\b.* called:")
FIELD = re.compile(r"i!\s+(\w+): type=[^;]*; val=(?:[A-Z_0-9]+\()?(\d+)\)?")
ONEDNN = re.compile(  # weights packed beforehand have no such tag, and are no product of stored operands
    r"onednn_verbose,.*,exec,cpu,(matmul|inner_product),[^ ]*,src:(f32|bf16|f16):[^ ]*:(ab|ba):[^ ]* "
    r"wei:(?:f32|bf16|f16):[^ ]*:(ab|ba):.*,(?:(\d+)x(\d+):\d+x(\d+)|mb(\d+)ic(\d+)oc(\d+)),"
)
ONEDNN_GEMM = re.compile(  # a call of its BLAS, dnnl_sgemm
    r"onednn_verbose,.*,exec,cpu,gemm_api,[^ ]*,src_f32:[^ ]*:(ab|ba):[^ ]* wei_f32:[^ ]*:(ab|ba):.*,"
    r"(\d+)x(\d+):\d+x(\d+),"
)
TYPES = {"f32": "fp32", "bf16": "bf16", "f16": "fp16"}
CUDA_TYPES = {0: "fp32", 2: "fp16", 3: "int8", 14: "bf16"}  # cudaDataType_t


def read(text: str) -> list[Gemm]:
    """Each different product once, in the order in which they were first called."""
    lines = text.splitlines()
    found = [*_mkl(lines), *_cublas(lines), *_onednn(lines)]
    return list(dict.fromkeys(problem for _, problem in sorted(found, key=lambda x: x[0])))


def _column_major(ta: str, tb: str, m: int, n: int, k: int, lds: tuple[int, int, int], dtype: str) -> Gemm:
    """Padding is told where all three operands have the same."""
    rows = (m if ta == "n" else k, k if tb == "n" else n, m)  # column-major: what a leading dimension spans
    pads = {ld - row for ld, row in zip(lds, rows, strict=True)}
    pad = pads.pop() if len(pads) == 1 else 0
    return Gemm(n, m, k, tb + ta, dtype=dtype, ld_pad=max(pad, 0))


def _empty(*sizes: int) -> bool:
    """Whether a call multiplies nothing, as with a batch of none."""
    return not all(sizes)


def _flag(word: str) -> str:
    return "n" if word in ("N", "0") else "t"


def _mkl(lines: list[str]) -> Iterator[tuple[int, Gemm]]:
    for number, line in enumerate(lines):
        if match := MKL.search(line):
            m, n, k, lda, ldb, ldc = map(int, match.groups()[2:])
            flags = _flag(match[1]), _flag(match[2])
            if _empty(m, n, k):
                continue
            yield number, _column_major(*flags, m, n, k, (lda, ldb, ldc), "fp32")


def _cublas(lines: list[str]) -> Iterator[tuple[int, Gemm]]:
    """A call, then a line for each argument."""
    for number, line in enumerate(lines):
        if not CUBLAS.search(line):
            continue
        told: dict[str, int] = {}
        for argument in lines[number + 1 :]:
            match = FIELD.match(argument.strip())
            if match:
                told[match[1]] = int(match[2])
            elif not argument.startswith("i!") or "Time:" in argument:
                break
        if {"transa", "transb", "m", "n", "k", "lda", "ldb", "ldc"} <= told.keys():
            if _empty(told["m"], told["n"], told["k"]) or told.get("Atype", 0) not in CUDA_TYPES:
                continue
            flags = _flag(str(told["transa"])), _flag(str(told["transb"]))
            lds = (told["lda"], told["ldb"], told["ldc"])
            dtype = CUDA_TYPES[told.get("Atype", 0)]
            yield number, _column_major(*flags, told["m"], told["n"], told["k"], lds, dtype)


def _onednn(lines: list[str]) -> Iterator[tuple[int, Gemm]]:
    """Row-major: src M×K, weights K×N, of an inner product N×K; a transposed one is tagged `ba`."""
    for number, line in enumerate(lines):
        if match := ONEDNN_GEMM.search(line):
            m, k, n = map(int, match.groups()[2:])
            if not _empty(m, k, n):
                yield number, Gemm(m, n, k, "".join("nt"[tag == "ba"] for tag in match.groups()[:2]))
        elif match := ONEDNN.search(line):
            kind, dtype, src, wei, *sizes = match.groups()
            m, k, n = (int(size) for size in sizes if size is not None)
            trans = ("n" if src == "ab" else "t") + ("n" if (wei == "ab") == (kind == "matmul") else "t")
            if not _empty(m, k, n):
                yield number, Gemm(m, n, k, trans, dtype=TYPES[dtype])
