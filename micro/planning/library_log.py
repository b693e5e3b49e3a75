"""An application's products and convolutions, from its library's log, and counts of all other calls.

Logs: MKL_VERBOSE, ONEDNN_VERBOSE and cuBLAS's. A BLAS logs its column-major call: sgemm(ta, tb, m, n, k) is
row-major M = n, N = m with the flags exchanged."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from micro.planning import benchdnn

MKL = re.compile(
    r"MKL_VERBOSE SGEMM\(([NTCntc]),([NTCntc]),(\d+),(\d+),(\d+),"
    r"[^,]+,[^,]+,(\d+),[^,]+,(\d+),[^,]+,[^,]+,(\d+)\)"
)
CUBLAS = re.compile(r"I! cuBLAS .* function cublasStatus_t cublas(Sgemm_v2|GemmEx)\b.* called:")
FIELD = re.compile(r"i!\s+(\w+): type=[^;]*; val=(?:[A-Z_0-9]+\()?(\d+)\)?")
CPU = r"(?:onednn|dnnl|mkldnn)_verbose,(?:.*,)?exec,cpu,"  # dnnl before 2.6, mkldnn before 1.1
ONEDNN = re.compile(  # weights packed beforehand have no such tag, and are no product of stored operands
    CPU + r"(matmul|inner_product),[^ ]*,src[:_](f32|bf16|f16):[^ ]*:(ab|ba):[^ ]* "  # src_f32 before 3.5
    r"wei[:_](?:f32|bf16|f16):[^ ]*:(ab|ba):.*,"
    r"(?:(\d+)x(\d+):\d+x(\d+)(?::\d+x\d+)?|m(\d+)n(?=\d+k(\d+),)(\d+)k\d+|mb(\d+)ic(\d+)oc(\d+)),"
)
MKLDNN = re.compile(r"mkldnn_verbose,exec,inner_product,[^ ]*,fsrc:nc fwei:(oi|io) .*,mb(\d+)ic(\d+)oc(\d+),")  # 0.x
INTEGERS = re.compile(r"int8|[us]8|s16|bf16")  # in the name of a kernel of 0.x, whose lines name no types
COMMA = re.compile(r"(mkldnn_verbose,.*,[^,\n]*\d[a-z][^,\n]*,\d+),(\d+)(?=\r?$)", re.M)  # decimal, by the locale
ONEDNN_GEMM = re.compile(  # a call of its BLAS, dnnl_sgemm
    CPU + r"gemm_api,[^ ]*,src_f32:[^ ]*:(ab|ba):[^ ]* wei_f32:[^ ]*:(ab|ba):.*,"
    r"(\d+)x(\d+):\d+x(\d+),"
)
MKL_CALL = re.compile(r"MKL_VERBOSE (?!Intel\()(\w+)\(")  # not its first line, which names the library
MKL_TIME = re.compile(r"\) ([\d.]+)(ns|us|ms|s)\b")
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
CUBLAS_CALL = re.compile(
    r"I! cuBLAS .* function cublasStatus_t cublas(?!Create|Destroy|Set|Get|Logger)(\w+?)(?:_v2)?\("
)
ONEDNN_CALL = re.compile(
    r"(?:mkldnn_verbose,exec(?!,[cg]pu,)|(?:onednn|dnnl|mkldnn)_verbose,(?:.*,)?exec,[cg]pu[^,]*),(\w+),"
)
ONEDNN_TIME = re.compile(r",([\d.]+(?:e[+-]?\d+)?)$")  # milliseconds
CONVOLUTION = re.compile(r",convolution,([^,]*),(\w+),([^,]*),")  # kernel, pass, tensors; before the time its sizes
ALGORITHM = re.compile(r"\balg:convolution_(\w+)")
TENSOR = re.compile(r"\b(?:src|wei|dst)[:_](\w+?):")  # its element type
ROUNDED = re.compile(r"\bfpmath:(?!strict)(\w+)")  # type to which it may round its operands
PASSES = {
    "forward_training": "forward",
    "forward_inference": "forward",
    "backward_data": "dgrad",
    "backward_weights": "wgrad",
}
TYPES = {"f32": "fp32", "bf16": "bf16", "f16": "fp16"}
CUDA_TYPES = {0: "fp32", 2: "fp16", 3: "int8", 14: "bf16"}  # cudaDataType_t


@dataclass(frozen=True)
class Calls:
    """Number of calls and their total seconds; None if any of the calls has no time."""

    count: int
    seconds: float | None

    def __add__(self, other: Calls) -> Calls:
        timed = self.seconds is not None and other.seconds is not None
        return Calls(self.count + other.count, (self.seconds or 0.0) + (other.seconds or 0.0) if timed else None)


P = TypeVar("P", bound=Problem)
K = TypeVar("K")


@dataclass(frozen=True)
class Log:
    """Calls of a log by name and problem, in the order in which they were first made.

    The name is the library's, such as `oneDNN convolution`; the problem is None for calls that this suite does not
    measure."""

    calls: dict[tuple[str, Gemm | Conv | None], Calls]

    def of(self, kind: type[P]) -> dict[P, Calls]:
        """Return the calls of each problem of this type."""
        return _summed((problem, calls) for (_, problem), calls in self.calls.items() if isinstance(problem, kind))

    def beside(self, kind: type[Problem]) -> dict[str, Calls]:
        """Return the calls that are not of this problem type, by the library's name of the call."""
        return _summed((word, calls) for (word, problem), calls in self.calls.items() if not isinstance(problem, kind))


def _summed(calls: Iterable[tuple[K, Calls]]) -> dict[K, Calls]:
    total: dict[K, Calls] = {}
    for key, some in calls:
        total[key] = total[key] + some if key in total else some
    return total


Call: TypeAlias = tuple[int, str, "Gemm | Conv | None", "float | None"]  # line, word, problem, seconds


def read(text: str) -> Log:
    """Read all calls of a log."""
    lines = _lines(text)
    every = sorted((*_mkl(lines), *_cublas(lines), *_onednn(lines)), key=lambda call: call[0])
    return Log(_summed(((word, problem), Calls(1, seconds)) for _, word, problem, seconds in every))


def algorithms(text: str) -> dict[Conv, str]:
    """Return oneDNN's implementation name of each convolution, with the algorithm if the name lacks it."""
    names: dict[Conv, str] = {}
    for line in _lines(text):
        match, chosen = CONVOLUTION.search(line), ALGORITHM.search(line)
        if match and ONEDNN_CALL.search(line):
            problem = _onednn_convolution(line)[1]
            if problem is not None:
                names[problem] = match[1] + (f" ({chosen[1]})" if chosen and chosen[1] not in match[1] else "")
    return names


def _lines(text: str) -> list[str]:
    """Split a log into lines; replace decimal commas in times by points."""
    return COMMA.sub(r"\1.\2", text).splitlines()


def _column_major(ta: str, tb: str, m: int, n: int, k: int, lds: tuple[int, int, int], dtype: str) -> Gemm:
    """Return the row-major Gemm of a column-major call, with `ld_pad` if all operands have the same."""
    rows = (m if ta == "n" else k, k if tb == "n" else n, m)  # column-major: what a leading dimension spans
    pads = {ld - row for ld, row in zip(lds, rows, strict=True)}
    pad = pads.pop() if len(pads) == 1 else 0
    return Gemm(n, m, k, tb + ta, dtype=dtype, ld_pad=max(pad, 0))


def _empty(*sizes: int) -> bool:
    """Return whether any size is 0, as with an empty batch."""
    return not all(sizes)


def _flag(word: str) -> str:
    return "n" if word in ("N", "n", "0") else "t"


def _mkl(lines: list[str]) -> Iterator[Call]:
    for number, line in enumerate(lines):
        if not (call := MKL_CALL.search(line)):
            continue
        timing = MKL_TIME.search(line)
        seconds = float(timing[1]) * UNITS[timing[2]] if timing else None
        product = None
        if match := MKL.search(line):
            m, n, k, lda, ldb, ldc = map(int, match.groups()[2:])
            if not _empty(m, n, k):
                product = _column_major(_flag(match[1]), _flag(match[2]), m, n, k, (lda, ldb, ldc), "fp32")
        yield number, f"MKL {call[1]}", product, seconds


def _cublas(lines: list[str]) -> Iterator[Call]:
    """Yield cuBLAS's calls, each followed by a line per argument; without times, which the log lacks."""
    for number, line in enumerate(lines):
        if not (call := CUBLAS_CALL.search(line)):
            continue
        product = _cublas_product(lines[number + 1 :]) if CUBLAS.search(line) else None
        yield number, f"cuBLAS {call[1]}", product, None


def _cublas_product(arguments: list[str]) -> Gemm | None:
    fields: dict[str, int] = {}
    for argument in arguments:
        match = FIELD.match(argument.strip())
        if match:
            fields[match[1]] = int(match[2])
        elif not argument.startswith("i!") or "Time:" in argument:
            break
    if not {"transa", "transb", "m", "n", "k", "lda", "ldb", "ldc"} <= fields.keys():
        return None
    if _empty(fields["m"], fields["n"], fields["k"]) or fields.get("Atype", 0) not in CUDA_TYPES:
        return None
    flags = _flag(str(fields["transa"])), _flag(str(fields["transb"]))
    lds = (fields["lda"], fields["ldb"], fields["ldc"])
    return _column_major(*flags, fields["m"], fields["n"], fields["k"], lds, CUDA_TYPES[fields.get("Atype", 0)])


def _onednn(lines: list[str]) -> Iterator[Call]:
    for number, line in enumerate(lines):
        if call := ONEDNN_CALL.search(line):
            timing = ONEDNN_TIME.search(line)
            word, problem = _onednn_convolution(line) if call[1] == "convolution" else (call[1], _onednn_product(line))
            yield number, f"oneDNN {word}", problem, float(timing[1]) * 1e-3 if timing else None


def _onednn_convolution(line: str) -> tuple[str, Conv | None]:
    """Return the name of a convolution call, with the reason if it is not measured, and its problem.

    The layout is the default: the line shows the layout of oneDNN's internal copies, not the caller's."""
    word = "convolution"
    match = CONVOLUTION.search(line)
    if not match or match[2] not in PASSES:
        return f"{word} (unknown pass)", None
    types = sorted({*TENSOR.findall(match[3]), *ROUNDED.findall(line)})
    if not types and "mkldnn_verbose" in line:
        types = INTEGERS.findall(match[1]) or ["f32"]
    if types != ["f32"]:
        return f"{word} ({', '.join(types)})", None
    try:
        return word, benchdnn.problem(line.rsplit(",", 2)[-2], PASSES[match[2]])
    except benchdnn.NotTaken as reason:
        return f"{word} ({reason})", None
    except ValueError:
        return f"{word} (unknown sizes)", None


def _onednn_product(line: str) -> Gemm | None:
    """Return a row-major product: src M×K, weights K×N, of an inner product N×K.

    A transposed operand is tagged `ba`. None for calls that are not measured."""
    if match := ONEDNN_GEMM.search(line):
        m, k, n = map(int, match.groups()[2:])
        trans = "".join("nt"[tag == "ba"] for tag in match.groups()[:2])
        return None if _empty(m, k, n) else Gemm(m, n, k, trans)
    if match := MKLDNN.search(line):
        m, k, n = map(int, match.groups()[1:])
        return None if _empty(m, k, n) or INTEGERS.search(line) else Gemm(m, n, k, "nt" if match[1] == "oi" else "nn")
    if not (match := ONEDNN.search(line)):
        return None
    kind, dtype, src, wei, *sizes = match.groups()
    m, k, n = (int(size) for size in sizes if size is not None)
    trans = ("n" if src == "ab" else "t") + ("n" if (wei == "ab") == (kind == "matmul") else "t")
    return None if _empty(m, k, n) else Gemm(m, n, k, trans, dtype=TYPES[dtype])
