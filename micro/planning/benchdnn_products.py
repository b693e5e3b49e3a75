"""Products in the words of `benchdnn --matmul`: `64x512:512x256n"fc1"`, source by weights."""

from __future__ import annotations

import re
from math import prod

from kernels.errors import UsageError
from kernels.ops.gemm.problem import Gemm
from micro.planning.benchdnn import Listed, NotTaken, collected, numbered

SIZES = r"(?:\d+x)+\d+"
NAMED = re.compile(rf"({SIZES}):({SIZES})(?::{SIZES})?(?:_?n.*)?")  # a result's size follows from the operands


def is_list(text: str) -> bool:
    """Return whether a file lists such products: its first line that is no remark and no option is one."""
    first = next((line for _, line in numbered(text) if not line.startswith("--")), "")
    return NAMED.fullmatch(first) is not None


def read(text: str) -> Listed:
    """Return the products of a file, each different one once. Raises ValueError."""
    return collected(text, lambda line: [] if line == "--matmul" else [problem(line)])


def problem(text: str) -> Gemm:
    """Return a line's product. Raises NotTaken for a batch of several, and ValueError for what is no product."""
    if text.startswith("--"):
        raise ValueError(f"{text}: of benchdnn's options for products none is read; take the line out")
    if not (match := NAMED.fullmatch(text)):
        raise ValueError(f"{text}: no product like 64x512:512x256")
    (*batch, m, k), (*others, rows, n) = ([int(size) for size in sizes.split("x")] for sizes in match.groups())
    if rows != k:
        raise ValueError(f"{text}: the source has {k} columns, the weights {rows} rows")
    if (count := max(prod(batch), prod(others)) if all((*batch, *others)) else 0) != 1:
        raise NotTaken(f"a batch of {count}")
    try:
        return Gemm(m, n, k)
    except UsageError as error:
        raise ValueError(f"{text}: {error}") from None
