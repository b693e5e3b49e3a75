"""cuDNN's declarations of what kernels/libs/cudnn.py and cudnn_layers.py call, out of its headers: cudnn_headers.json.

The wheel with the headers is no dependency: it is 366 MB. `python -m tests.simulated.cudnn_headers FOLDER` reads them
where it was unpacked, FOLDER being nvidia/cudnn/include, and keeps what is needed.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

from kernels.libs import cudnn, cudnn_layers
from tests.simulated import declarations
from tests.simulated.declarations import Declarations

KEPT = Path(__file__).with_suffix(".json")
HEADERS = ("cudnn_graph.h", "cudnn_ops.h", "cudnn_cnn.h")
TERMS = "Names, types and numbers of cuDNN's interface, of which the headers are NVIDIA's and not here."
FUNCTION = re.compile(r"(?P<returns>(?:const )?\w+ ?\*?)\s+(?P<name>cudnn\w+)\((?P<arguments>[^()]*)\);")
ENUM = re.compile(r"typedef enum \{(?P<body>[^{}]*)\} (?P<name>\w+) ?;")
STRUCT = re.compile(r"typedef struct \w+ \{(?P<body>[^{}]*)\} (?P<name>\w+) ?;")
HANDLE = re.compile(r"typedef struct (?P<tag>\w+) ?\*(?P<name>\w+) ?;")
STREAM = {"cudaStream_t": "CUstream_st*"}  # of CUDA's own header


def symbols() -> set[str]:
    """The functions that the binding names."""
    code = "".join(map(inspect.getsource, (cudnn, cudnn_layers)))
    return set(re.findall(r"\bcudnn[A-Z]\w*", re.sub(r'"""[\s\S]*?"""|#[^\n]*', "", code)))


def read(folder: Path) -> dict[str, Any]:
    """What the headers there declare of these functions, as declarations.json has it."""
    text = "\n".join((folder / name).read_text("utf-8") for name in HEADERS)
    version = re.findall(r"#define CUDNN_(?:MAJOR|MINOR|PATCHLEVEL) (\d+)", (folder / "cudnn_version.h").read_text())
    text = re.sub(r"/\*[\s\S]*?\*/|//[^\n]*|\bCUDNN_DEPRECATED(?:_ENUM)?\b|\bCUDNNWINAPI\b", "", text)
    text = re.sub(r"[ \t\n]+", " ", text)
    found = {x["name"]: x for x in FUNCTION.finditer(text)}
    functions = {
        name: {
            "symbol": name,
            "returns": found[name]["returns"].strip(),
            "arguments": [x.strip() for x in found[name]["arguments"].split(",") if x.strip() != "void"],
        }
        for name in sorted(symbols())
    }
    return {"from": f"cuDNN {'.'.join(version)}", "terms": TERMS, "functions": functions, **_types(text, functions)}


def _types(text: str, functions: dict[str, Any]) -> dict[str, Any]:
    """What the functions' words stand for."""
    enums = {x["name"]: _members(x["body"]) for x in ENUM.finditer(text)}
    structs = {x["name"]: [f.strip() for f in x["body"].split(";") if f.strip()] for x in STRUCT.finditer(text)}
    handles = {x["name"]: x["tag"] for x in HANDLE.finditer(text)}
    wanted = {w for f in functions.values() for x in (f["returns"], *f["arguments"]) for w in re.findall(r"\w+", x)}
    wanted |= {w for name in wanted & set(structs) for field in structs[name] for w in re.findall(r"\w+", field)}
    types = {name: f"{tag}*" for name, tag in handles.items() if name in wanted} | STREAM
    opaque: dict[str, list[str]] = {tag.rstrip("*"): [] for tag in types.values()}
    return {
        "types": {name: types[name] for name in sorted(types)},
        "enums": {name: enums[name] for name in sorted(wanted & set(enums))},
        "structs": {name: {**structs, **opaque}[name] for name in sorted((wanted & set(structs)) | set(opaque))},
        "attributes": {},
    }


def _members(body: str) -> dict[str, int]:
    """A member without a number is one more than that before it."""
    made: dict[str, int] = {}
    for word in filter(None, map(str.strip, body.split(","))):
        name, _, value = (x.strip() for x in word.partition("="))
        if not value or value.lstrip("-").isdigit():
            made[name] = int(value) if value else max(made.values(), default=-1) + 1
    return made


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

if __name__ == "__main__":
    KEPT.write_text(json.dumps(read(Path(sys.argv[1])), indent=1) + "\n", "utf-8")
