"""The kind of work of a CUDA kernel, by its name in cuBLAS, CUTLASS, cuDNN, PyTorch, NCCL or XLA.

The first pattern that matches decides; names are demangled, as CUPTI reports them.
"""

from __future__ import annotations

import functools
import re

from macro.explaining.kinds import UNKNOWN

PATTERNS = (
    ("pooling", r"triton_\w*pool"),
    ("reduction", r"triton_(red|per)_\w*conv"),  # of a bias' gradient, named after what it follows
    ("element-wise", r"triton_poi|op_?tensor|(relu|sigmoid|tanh|exp)_(forward|dgrad)"),  # … too
    ("communication", r"nccl"),
    ("attention", r"flash|fmha|attention|softmax_warp_forward.*mha"),
    ("layout reorder", r"nchwto|nhwcto|tonchw|tonhwc|nchw2nhwc|nhwc2nchw|transpose|permute"),
    ("optimizer", r"multi_tensor|adam|fusedoptim|sgd_|foreach|optimizer_"),
    ("random numbers", r"distribution_|random|philox|dropout"),
    ("normalization", r"batch_?norm|bn_fw|bn_bw|layer_?norm|rms_?norm|group_?norm|lrn"),
    ("pooling", r"pool"),
    ("softmax and loss", r"softmax|nll_loss|cross_entropy|mse_loss|binary_cross"),
    ("recurrent cell", r"lstm|gru|rnn|elemwise_?cell"),
    ("embedding", r"embedding|index_?select|gather|scatter"),
    # cuDNN's FFT convolutions multiply complex matrices, which nothing else of a network does.
    (
        "convolution",
        r"conv(?!ert)|cgemm|fft2d|fprop|dgrad|wgrad|winograd|im2col|col2im|implicit|computeoffsets|"
        r"[sh]cudnn|(columns|frames)_",
    ),
    ("gemm", r"gemm|gemv|nvjet|triton_tem\w*mm|epilogue::impl|cutlass|splitk|cublas|xmma|matmul|dot_kernel"),
    ("reduction", r"reduce|reduction|cub::|sum_kernel|norm_kernel|cupy_(sum|max|min|mean|prod)_"),
    ("cast", r"(?<!no)(?<!broad)cast|convert|direct_copy.*half|bfloat16_copy"),
    ("copy", r"copy|memcpy|cat_?array|slice|pad"),
    ("clear", r"fill|memset|zero"),
    ("element-wise", r"elementwise|element_wise|unrolled|vectorized|relu|sigmoid|tanh|gelu|add_|mul_|fusion|cupy_"),
)
COMPILED = [(kind, re.compile(pattern)) for kind, pattern in PATTERNS]


@functools.lru_cache(maxsize=4096)
def kind_of(name: str) -> str:
    """Return the kind of work of a kernel; `unknown` where no pattern matches."""
    low = name.lower()
    return next((kind for kind, pattern in COMPILED if pattern.search(low)), UNKNOWN)


def short(name: str) -> str:
    """Drop a kernel's arguments and template parameters: `at::native::vectorized_elementwise_kernel`.
    A template of PyTorch's keeps the functor that it applies."""
    plain = re.sub(r"^(void|static) ", "", name)
    head = re.split(r"[<(]", plain.replace("(anonymous namespace)::", ""), maxsplit=1)[0]
    functor = re.search(r"(\w+(?:Functor|Op|Ops|_impl))\b", plain[len(head) :])
    return f"{head} {functor[1]}" if functor else head
