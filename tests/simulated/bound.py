"""Every place in the code that takes a C function of cuBLAS, cuBLASLt, cuFFT, cuSPARSE or the driver, found by
reading it."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("kernels", "micro", "macro", "reports", "tests/gpu")
NAME = re.compile(r"cu(?:blas(?:Lt)?|fft|sparse)?[A-Z]\w*")
MAYBE = re.compile(
    r"\bcu(?:blas(?:Lt)?|fft|sparse)?[A-Z{]|\bgetattr\("
)  # what a file has that is worth its syntax tree
LIBRARIES = ("api", "library", "lib", "blas", "driver")  # what we call objects that `getattr` takes functions from
# Places that read like the others, whose functions are another's.
OTHERS = {
    ("kernels/libs/skcuda.py", "open_handle"): "scikit-cuda's, in Python",
    ("kernels/libs/skcuda.py", "_handle"): "scikit-cuda's, in Python",
    ("kernels/libs/skcuda.py", "_call"): "scikit-cuda's, in Python",
    ("kernels/libs/skcuda.py", "transforms"): "scikit-cuda's, in Python",
    ("kernels/libs/nvml.py", "_answer"): "pynvml's, in Python",
    ("kernels/libs/cudnn.py", "call"): "cuDNN's, which tests/simulated/cudnn_headers.py has",
    ("kernels/libs/cudnn.py", "launch"): "the same",
    ("kernels/libs/cudnn_layers.py", "_ready"): "the same",
}


class Site(NamedTuple):
    """A function of Python that takes a function of C from its library."""

    file: str
    function: str
    symbol: str


def sites() -> set[Site]:
    """All places in the code."""
    return {x for x in _everywhere() if (x.file, x.function) not in OTHERS}


def stale() -> set[tuple[str, str]]:
    """Entries of OTHERS that fit nothing in the code."""
    return set(OTHERS) - {(x.file, x.function) for x in _everywhere()}


@functools.cache
def _everywhere() -> frozenset[Site]:
    texts = ((path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in files(".py"))
    return frozenset(x for file, text in texts if MAYBE.search(text) for x in taken(file, text))


def files(*suffixes: str) -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and not path.name.startswith("test_"):
                yield path


def taken(file: str, text: str) -> Iterator[Site]:
    """The functions of C that a file takes from libraries; "?…" is one whose name cannot be read off."""
    tree = ast.parse(text)
    nodes = list(_inside(tree, "<module>"))
    patterns = {f: x for f, node in nodes if isinstance(node, ast.JoinedStr) and (x := _pattern(node))}
    for function, node in nodes:
        if isinstance(node, ast.Attribute) and NAME.fullmatch(node.attr):
            yield Site(file, function, node.attr)
        elif isinstance(node, ast.JoinedStr) and (pattern := _pattern(node)):
            yield from (Site(file, function, x) for x in _filled(tree, function, pattern))
        elif name := _by_name(node):
            if isinstance(name, ast.Constant):
                yield Site(file, function, str(name.value))
            elif function not in patterns:
                yield Site(file, function, f"?{ast.unparse(name)}")


def _inside(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """Every node with the name of the function around it."""
    for child in ast.iter_child_nodes(node):
        yield function, child
        name = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        yield from _inside(child, name)


def _by_name(node: ast.AST) -> ast.expr | None:
    """The name, where it is `library["name"]`, or `getattr` of what is called as libraries are."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice if NAME.fullmatch(str(node.slice.value)) else None
    if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "getattr"):
        return None
    return node.args[1] if ast.unparse(node.args[0]).rpartition(".")[2] in LIBRARIES else None


def _pattern(node: ast.JoinedStr) -> str | None:
    """f"cublasLt{kind}Create" is "cublasLt{kind}Create"; None of what is no name."""
    text = ast.unparse(node)[2:-1]
    begins = re.match(r"cu(?:blas(?:Lt)?|fft|sparse)?(?=[A-Z{])", text)
    return text if begins and re.fullmatch(r"\w+\{\w+\}\w*", text) else None


def _filled(tree: ast.AST, function: str, pattern: str) -> Iterator[str]:
    """The names that a pattern of a function's parameter stands for, by what its callers in the file pass."""
    parameter = pattern.partition("{")[2].partition("}")[0]
    found = next(x for _, x in _inside(tree, "") if isinstance(x, ast.FunctionDef) and x.name == function)
    index = [x.arg for x in found.args.args].index(parameter)
    for _, node in _inside(tree, ""):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == function:
            word = node.args[index]
            known = str(word.value) if isinstance(word, ast.Constant) else f"?{ast.unparse(word)}"
            yield pattern.replace(f"{{{parameter}}}", known)


def in_c() -> set[str]:
    """Functions of these libraries that our own C calls by name."""
    found = set()
    for path in files(".c", ".cu", ".h"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)
        found |= {f"{path.name}: {x}" for x in re.findall(rf"\b({NAME.pattern})\s*\(", text)}
    return found
