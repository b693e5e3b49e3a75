"""cuDNN's declarations of what kernels/libs/cudnn.py and cudnn_layers.py call: cudnn_headers.json.

They were taken out of the headers of nvidia-cudnn-cu13, which is no dependency (366 MB); a function that is called
anew is added to the file by hand.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from pathlib import Path

from kernels.libs import cudnn, cudnn_layers
from tests.simulated import declarations
from tests.simulated.declarations import Declarations

KEPT = Path(__file__).with_suffix(".json")


def symbols() -> set[str]:
    """The functions that the binding names."""
    code = "".join(map(inspect.getsource, (cudnn, cudnn_layers)))
    return set(re.findall(r"\bcudnn[A-Z]\w*", re.sub(r'"""[\s\S]*?"""|#[^\n]*', "", code)))


@functools.cache
def kept() -> Declarations:
    """What cudnn_headers.json holds."""
    return declarations.understood(json.loads(KEPT.read_text("utf-8")))


def numbers() -> dict[str, int]:
    """The numbers of the binding by NVIDIA's names."""
    algorithms = {"FWD": cudnn.FORWARD, "BWD_DATA": cudnn.DATA, "BWD_FILTER": cudnn.FILTER}
    return {
        "CUDNN_DATA_FLOAT": cudnn.FLOAT,
        "CUDNN_CROSS_CORRELATION": cudnn.CROSS_CORRELATION,
        **{f"CUDNN_TENSOR_{name.upper()}": number for name, number in cudnn.FORMATS.items()},
        **{MATHS[name]: number for name, number in cudnn.MATHS.items()},
        "CUDNN_POOLING_MAX": cudnn_layers.MODES["max"],
        "CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING": cudnn_layers.MODES["avg"],
        "CUDNN_PROPAGATE_NAN": cudnn_layers.PROPAGATE,
        "CUDNN_BATCHNORM_SPATIAL": cudnn_layers.SPATIAL,
        "CUDNN_LRN_CROSS_CHANNEL_DIM1": cudnn_layers.ACROSS,
        "CUDNN_OP_TENSOR_ADD": cudnn_layers.ADD,
        "CUDNN_ACTIVATION_RELU": cudnn_layers.RELU,
        **{
            f"CUDNN_CONVOLUTION_{word}_ALGO_{name.removeprefix('ALGO_')}": i
            for word, names in algorithms.items()
            for i, name in enumerate(names)
        },
    }


MATHS = {
    "default": "CUDNN_DEFAULT_MATH",
    "tensor": "CUDNN_TENSOR_OP_MATH",
    "convert": "CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION",
    "fma": "CUDNN_FMA_MATH",
}
