"""The kind of work (column) of a sample, by its symbol and library, and by the span around it.

Patterns match base names of libraries, never paths: a library below a folder named python3.11 is no interpreter.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path, PurePath

from kernels import ops
from macro.explaining import kinds


def _compiled(*rules: tuple[str, str]) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the pattern and the column of each rule."""
    return tuple((re.compile(pattern), column) for column, pattern in rules)


SYSTEM = re.compile(r"^\[(kernel|guest)|\.ko$")
LIBC = re.compile(r"^lib(c|c-\d.*|pthread|pthread-.*)\.so|^ld-linux|^ld-\d")
SUITE = re.compile(r"^(?P<source>\w+?)-[0-9a-f]{24}\.so$")  # as kernels.build names what it compiles
PYTHON = re.compile(r"^(lib)?python\d")
# Kernel symbols of page faults, which take locks, read control groups under RCU, and reschedule. A sample that is due
# while interrupts are off lands where a lock enables them again: in a step that is the page allocator, whose lists of
# free pages a step takes from.
FAULTS = re.compile(
    r"page|fault|clear_|folio|zap|map_|mmap|vma|vm_|mm_|mas_|xas_|lru|charge|anon|rmqueue|alloc|free_|madvise|protect|tlb|"
    r"cgroup|memcg|objcg|rcu|swap|zone|pcp|percpu|(^|_)(pte|ptep|pmd|pud|p4d|pgd)(_|$)|"
    r"spin_(un|try)?lock|(up|down)_(read|write)|cond_resched|error_entry|sync_regs|"
    r"list_(add|del)_|nodemask|pfnblock|access_error|saveddirty"
)
TICKS = re.compile("hrtimer|tick_|sched_balance")  # and what they set off
WAITS = re.compile(r"futex|sched|yield|wait|wake|switch|nanosleep|idle|irq_work|ttwu")
BY_KERNEL = (
    (re.compile("futex"), "spin"),  # some look up a page
    (FAULTS, "OS memory"),
    (TICKS, "OS other"),
    (WAITS, "spin"),
)  # the rest is interrupts, system calls and files
BY_LIBC = _compiled(
    ("copy", r"mem(cpy|move)"),
    ("clear", r"memset|bzero"),
    (
        "malloc",
        r"malloc|calloc|realloc|free|memalign|unlink_chunk|tcache|sysmalloc|systrim|arena|madvise|munmap|mmap|s?brk",
    ),
    ("spin", r"yield|futex|pthread|lll_|cond_|clock_nanosleep|sem_"),
)
BY_OP = {
    "gemm": "gemm",
    "spmm": "gemm",
    "update": "optimizer",
    "optimizer": "optimizer",
    "softmax": "softmax and loss",
    "conv": "convolution",
    "norm": "normalization",
    "pool": "pooling",
}
BY_SYMBOL = _compiled(
    ("tracer", r"libkineto|torch::(autograd::)?profiler|RecordFunction|record_function|RecordQueue|StepCallbacks"),
    ("copy", r"^(_contig_|raw_array_(assign|copy)|PyArray_(TransferNDim|GetStridedCopy))"),  # NumPy's own
    ("interpreter", r"^(_?Py[A-Z_]|_PyEval|PyObject|npyiter|array_|ufunc_|PyUFunc|PyArray|npy_|unpack_indices)"),
    (
        "spin",
        r"(?i)barrier|gomp_.*wait|gomp_team|kmp_.*(wait|yield|suspend|release|flag)|blas_thread_server|exec_blas|"
        r"do_spin|cpu_relax|WaitForWork|Eigen::EventCount|Mutex::|futex",
    ),
    ("random numbers", r"(?i)bernoulli|random64|random_from_to|mt19937|normal_fill|normal_distribution|philox|rng_"),
    ("layout reorder", r"(?i)jit_.*(reorder|single_blk)|simple_reorder|reorder_kernel|nchw_to|nhwc_to"),
    (
        "packing",
        r"(?i)([io][nt]copy)|scopy_|gemm_pack|pack_(lhs|rhs|[ab])|ynn::transpose|_copy_[ab]|gemm_copy|"
        r"pack(ing|ed)?_|jit_.*(trans|copy_f32|pack)|(a|b)copy",
    ),
    ("normalization", r"(?i)batch_?norm|layer_?norm|group_?norm|rms_?norm|bnorm|WelfordOps|RowwiseMoments"),
    ("pooling", r"(?i)max_?pool|avg_?pool|adaptive_.*pool|jit_uni_pool"),
    ("attention", r"(?i)flash_attention|scaled_dot_product|sdpa"),
    ("embedding", r"(?i)embedding"),
    (
        "convolution",
        r"(?i)conv\w*_(fwd|bwd|kernel)|brgconv|brg_conv|im2col|col2im|jit_.*conv|_conv_|depthwise|winograd",
    ),
    ("recurrent cell", r"(?i)rnn_|lstm_|gru_"),
    ("gemm", r"(?i)gemm|gemv|brgemm|dot_fp32|ynn::dot|contraction|gebp|gemm_kernel|inner_product|matmul|sger|sdot"),
    ("malloc", r"operator (new|delete)|c10::(alloc_cpu|free_cpu)|c10::\w*Allocator|MemoryReporter"),
    ("softmax and loss", r"(?i)softmax|logsumexp|nll_loss|cross_?entropy|xent"),
    (
        "optimizer",
        r"(?i)sgd|ApplyGradient|Apply(Momentum|Ada|RMSProp)|optimizer|nag_?mom|nesterov|(?<![a-z])adam|adagrad|rms_?prop",
    ),
    ("reduction", r"(?i)reduc|_sum\b|pairwise_sum|\bsum_|cascade_sum"),
    ("copy", r"(?i)memcpy|memmove|copy_kernel|direct_copy|_copy\b|CopyTensor|strided_to|_aligned_"),
    ("clear", r"(?i)memset|fill_kernel|zero_"),
    (
        "element-wise",
        r"(?i)vectorized|VectorizedLoop|TensorIterator|loop2d|eltwise|EvalRange|TensorExecutor|EvalPacket|PacketOp|"
        r"(FLOAT|DOUBLE|BOOL|INT)_\w+|simd_exp|vsExp|vml|v[sd](Exp|Tanh)|Sleef|expf?\b|tanhf?\b|sigmoid|relu|"
        r"axpy|scal\b|binary_op|unary_op|jit_uni",
    ),
    # What a framework does around kernels, by name: all else of its libraries is what the operation around it is.
    (
        "dispatch",
        r"c10::(impl|Dispatcher|intrusive|TensorImpl|StorageImpl|SymInt|IValue|OperatorHandle|KernelFunction|"
        r"DispatchKey|ivalue|GradMode|AutoGradMode|InferenceMode|SmallVector|cuda|detail)|"
        r"at::(_ops::|redispatch|Tensor(Base|::|IteratorBase|IteratorConfig|Geometry)|detail::|native::(empty|"
        r"resize|as_strided|view|expand|permute|transpose|squeeze|unsqueeze|select|slice|reshape|detach|alias|t\b|is_\w+)|"
        r"infer_size|namedinference|globalContext|internal::|meta::|\(anonymous namespace\)::(structured_|"
        r"wrapper_)|parallel_for|ThreadLocal\w*|RecordFunction|getStepCallbacks)|"
        r"torch::(autograd|jit|utils|dynamo|detail|ADInplaceOrView|TraceType|PythonArg)|THP\w+|autograd|tensorflow::|"
        r"xla::|tsl::|tfrt::|absl::|mxnet|nnvm|CNTK|mkl_serv|pybind11|"
        r"nanobind",
    ),
)
BINDINGS = re.compile(r"^lib(torch_python|c10|shm|pybind)\b|^_C\.")  # libraries that hold nothing but dispatch


@functools.cache
def _operations() -> dict[str, str]:
    """Map the suite's C files, by stem, to the operation that each belongs to."""
    return {path.stem: path.parent.name for path in Path(ops.__file__).parent.glob("*/*.c")}


@functools.cache
def of_symbol(symbol: str, module: str) -> str:
    """Return the column of a sample by its symbol alone; `unknown: MODULE` where no rule matches."""
    base = PurePath(module).name
    if "vdso" in module:
        return "OS other"
    if SYSTEM.search(module):
        return next((column for pattern, column in BY_KERNEL if pattern.search(symbol)), "OS other")
    if match := SUITE.match(base):
        return BY_OP.get(_operations().get(match["source"], ""), "element-wise")
    if LIBC.search(base):
        return next((column for pattern, column in BY_LIBC if pattern.search(symbol)), "interpreter")
    if base.startswith("libm."):
        return "interpreter" if symbol.startswith("fe") else "element-wise"  # NumPy's floating-point flags
    for pattern, column in BY_SYMBOL:
        if pattern.search(symbol):
            return column
    if BINDINGS.search(base):
        return "dispatch"
    if PYTHON.search(base) or base.startswith("_multiarray_umath."):
        return "interpreter"
    return f"unknown: {base.strip('[]') or 'no module'}"


def joined(symbol: str, span: str | None) -> str:
    """Return the column of a sample inside a span of kind `span`.
    The span names what symbols cannot, such as generated code; memory, waiting, dispatch and copies inside it keep
    their column."""
    unnamed = symbol.startswith(kinds.UNKNOWN)
    if span is None or span == symbol:
        return symbol
    if span == "dispatch":  # of an operation that only calls others, or handles shapes
        return span if unnamed else symbol
    if span == "data":
        return span if unnamed or symbol in ("interpreter", "dispatch") else symbol
    if kinds.find(span).inclusive:  # its products and what it calls are parts of it, and copies are changes of layout
        parts = {"gemm": span, "dispatch": span, "copy": "layout reorder"}
        return span if unnamed else parts.get(symbol, span if kinds.find(symbol).renamed else symbol)
    if not (kinds.find(symbol).renamed or unnamed):
        return symbol
    if span == "gemm":
        return "gemm" if unnamed else symbol
    return symbol if symbol == "gemm" else span
