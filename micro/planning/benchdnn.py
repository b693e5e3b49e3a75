"""Parser of convolutions and matrix products in the notation of benchdnn, oneDNN's benchmark.

A convolution: `g2mb256ic96ih27oc256oh27kh5ph2n"conv2"`; a product, source by weights: `64x512:512x256n"fc1"`.
Dilation is counted from 0. A width that is not given equals the height; padding that is not given follows from the
outputs. The last padding, at the bottom and on the right, is never given: it follows from the outputs."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.taps import Line
from kernels.ops.gemm.problem import Gemm

NAMES = "mb|ic|oc|id|ih|iw|od|oh|ow|kd|kh|kw|sd|sh|sw|pd|ph|pw|dd|dh|dw|g"
SIZE = re.compile(rf"({NAMES})(\d+)")
SIZES = re.compile(rf"((?:(?:{NAMES})\d+_*)+)")
NAMED = re.compile(rf"{SIZES.pattern}(?:n.*)?")  # a name ends it, usually in quotes
FACTOR = r"(?:\d+x)+\d+"
PRODUCT = re.compile(rf"({FACTOR}):({FACTOR})(?::{FACTOR})?(?:_?n.*)?")  # a result's size follows from the operands
PASSES = {  # of benchdnn's --dir; a bias is not measured
    "FWD_B": "forward",
    "FWD_D": "forward",
    "FWD_I": "forward",
    "BWD_D": "dgrad",
    "BWD_W": "wgrad",
    "BWD_WB": "wgrad",
}


class NotTaken(ValueError):
    """A convolution or product that this suite does not measure; the message is a short reason."""


def is_descriptor(text: str) -> bool:
    """Return whether a text is a convolution in benchdnn's notation."""
    return NAMED.fullmatch(text) is not None


@functools.cache  # a log repeats a few convolutions many times
def problem(text: str, direction: str = "forward") -> Conv:
    """Parse a convolution. Raises NotTaken, and ValueError where the text is no convolution."""
    match = NAMED.fullmatch(text)
    if not match:
        raise ValueError(f"{text}: not a convolution like mb16ic3ih32oc64oh32kh3ph1")
    sizes = SIZE.findall(match[1])
    given = {name: int(size) for name, size in sizes}
    if twice := [name for name, size in sizes if int(size) != given[name]]:
        raise ValueError(f"{text}: {twice[0]} is given twice, with different values")
    if any(name in given for name in ("id", "od", "kd")):
        raise NotTaken("3-d")
    down, across = _line(given, "h"), _line(given, "w")
    if across is None:
        across = down
    if down is None and across is not None:  # an image of one row
        down = replace(across, size=1, taps=1, before=0, after=0)
    if down is None or across is None or not {"ic", "oc"} <= given.keys():
        raise ValueError(f"{text}: must contain ic, oc, ih and kh (or iw and kw)")
    try:
        return _conv(given, down, across, direction)
    except UsageError as error:
        raise ValueError(f"{text}: {error}") from None


def _conv(given: Mapping[str, int], down: Line, across: Line, direction: str) -> Conv:
    """Return the problem. Raises NotTaken, and UsageError where the sizes are no convolution."""
    if down.stride != across.stride:
        raise NotTaken("two strides")
    if down.dilation != across.dilation:
        raise NotTaken("two dilations")
    sides = {"top": down.before, "left": across.before, "bottom": down.after, "right": across.after}
    alike = len(set(sides.values())) == 1
    how: dict[str, Any] = {"pad": down.before} if alike else {f"pad_{side}": zeros for side, zeros in sides.items()}
    sizes = (given.get("mb", 2), given["ic"], down.size, across.size, given["oc"], down.taps, across.taps)
    how |= {"stride": down.stride, "dilation": down.dilation, "groups": given.get("g", 1)}
    return Conv(*sizes, direction=direction, **how)


def _line(given: Mapping[str, int], axis: str) -> Line | None:
    """Return the geometry along the height ("h") or width ("w"), None if no size of it is given.

    Padding is equal on both sides if that gives the outputs. Otherwise the padding at the end is derived from the
    outputs. Raises ValueError, NotTaken."""
    named = [name for name in given if name[1:] == axis and given[name] != (1 if name[0] == "s" else 0)]
    if not named:
        return None
    if missing := [name for name in (f"i{axis}", f"k{axis}") if name not in given]:
        raise ValueError(f"{missing[0]} is missing although {', '.join(named)} is given")
    size, taps, stride = given[f"i{axis}"], given[f"k{axis}"], given.get(f"s{axis}", 1)
    dilation, outputs, before = given.get(f"d{axis}", 0) + 1, given.get(f"o{axis}"), given.get(f"p{axis}")
    if stride < 1:
        raise NotTaken("stride 0")
    reach = (taps - 1) * dilation + 1
    if outputs is None:
        return Line(size, taps, stride, before or 0, before or 0, dilation)
    needed = (outputs - 1) * stride - size + reach
    if before is None:
        before = max(needed, 0) // 2
    if (size + 2 * before - reach) // stride + 1 == outputs:
        return Line(size, taps, stride, before, before, dilation)
    if needed - before <= -stride:
        raise NotTaken("outputs left out")
    return Line(size, taps, stride, before, max(needed - before, 0), dilation)


def is_list(text: str) -> bool:
    """Return whether a file's first line that is no remark is a benchdnn option or convolution."""
    first = next((line for line in numbered(text)), (0, ""))[1]
    return first.startswith("--") or is_descriptor(first)


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of a file's lines, without `#` remarks and empty lines."""
    for number, line in enumerate(text.splitlines(), 1):
        if bare := line.partition("#")[0].strip():
            yield number, bare


@dataclass(frozen=True)
class Listed:
    """Problems listed in a file, and the lines that were taken or left out."""

    problems: Sequence[Conv | Gemm]  # without duplicates, a convolution in every requested pass
    taken: int  # lines that gave problems
    left_out: dict[str, int]  # number of lines with a problem that is not measured, by reason
    unread: Sequence[str] = ()  # the other lines that were left out, each with its number and the reason


def read(text: str) -> Listed:
    """Parse a file's convolutions, in the passes of the last --dir line, else in all. Raises ValueError."""
    directions: tuple[str, ...] = tuple(dict.fromkeys(PASSES.values()))

    def problems(line: str) -> list[Conv]:
        nonlocal directions
        if line.startswith("--"):
            directions = _directions(line)
            return []
        return [problem(line, direction) for direction in directions]

    return collected(text, problems)


def collected(text: str, problems_of: Callable[[str], list[Any]]) -> Listed:
    """Collect a file's distinct problems; `problems_of` parses a line, [] for options.

    A line that is no problem is left out, with its number. Raises ValueError for an option that is not supported."""
    problems: dict[Any, None] = {}
    left_out: dict[str, int] = {}
    unread, taken = list[str](), 0
    for number, line in numbered(text):
        try:
            listed = problems_of(line)
            problems |= dict.fromkeys(listed)
            taken += bool(listed)
        except NotTaken as reason:
            left_out[str(reason)] = left_out.get(str(reason), 0) + 1
        except ValueError as error:
            if line.startswith("--"):
                raise ValueError(f"line {number}: {error}") from None
            unread.append(f"line {number}: {error}")
    return Listed(list(problems), taken, left_out, unread)


def _directions(line: str) -> tuple[str, ...]:
    """Parse the passes of `--dir=FWD_D,BWD_D`. Raises ValueError."""
    name, _, value = line.partition("=")
    if name != "--dir":
        raise ValueError(f"{line}: only benchdnn's option --dir is supported; remove this line")
    if strange := [word for word in value.split(",") if word not in PASSES]:
        raise ValueError(f"{line}: {strange[0]}: choose from {', '.join(PASSES)}")
    return tuple(dict.fromkeys(PASSES[word] for word in value.split(",")))


def is_product_list(text: str) -> bool:
    """Return whether a file's first line that is no remark and no option is a benchdnn product."""
    first = next((line for _, line in numbered(text) if not line.startswith("--")), "")
    return PRODUCT.fullmatch(first) is not None


def read_products(text: str) -> Listed:
    """Parse the distinct products of a file. Raises ValueError."""
    return collected(text, lambda line: [] if line == "--matmul" else [product(line)])


def product(text: str) -> Gemm:
    """Parse a line's product. Raises NotTaken if it is batched, and ValueError if the text is no product."""
    if text.startswith("--"):
        raise ValueError(f"{text}: benchdnn's options for products are not supported; remove this line")
    if not (match := PRODUCT.fullmatch(text)):
        raise ValueError(f"{text}: not a product like 64x512:512x256")
    (*batch, m, k), (*others, rows, n) = ([int(size) for size in sizes.split("x")] for sizes in match.groups())
    if rows != k:
        raise ValueError(f"{text}: {k} columns of the source do not match {rows} rows of the weights")
    if (count := max(prod(batch), prod(others)) if all((*batch, *others)) else 0) != 1:
        raise NotTaken(f"a batch of {count}")
    try:
        return Gemm(m, n, k)
    except UsageError as error:
        raise ValueError(f"{text}: {error}") from None
