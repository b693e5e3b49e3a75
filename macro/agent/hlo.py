"""Rows of an XLA program's instructions, derived from the scopes in its HLO text.

A fusion serves the rows of all its instructions except FREE ones, which cost next to nothing. A copy of a parameter,
which XLA inserts if the parameter must not be overwritten yet, is `parameter copy`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

FREE = {
    *("parameter", "constant", "broadcast", "reshape", "bitcast", "bitcast-convert"),
    *("get-tuple-element", "tuple", "iota", "copy"),
}
PRODUCTS = ("dot", "convolution")
# Suffixes of op_name of library calls, in JAX and TensorFlow.
LIBRARY = (
    *("dot_general", "conv_general_dilated", "MatMul", "MatMul_1", "Conv2D"),
    *("Conv2DBackpropInput", "Conv2DBackpropFilter"),
)
MOVES = {
    *("convolution", "dot", "custom-call", "pad", "reverse", "transpose", "slice", "dynamic-slice"),
    *("gather", "concatenate"),
}
WORK = (" forward", " dgrad", " wgrad", " gradient")  # endings of rows of a layer's main work
LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*)$")


class Instruction:
    def __init__(self, name: str, shape: str, opcode: str, rest: str) -> None:
        inside = rest[: rest.find(")")]
        self.name, self.opcode = name, opcode
        self.shape, self.layout = _shape(shape)
        self.operands = re.findall(r"%([\w.-]+)", inside)
        self.op_name = _first_group(r'op_name="([^"]*)"', rest)
        self.calls = _first_group(r"\bcalls=%?([\w.-]+)", rest) if opcode == "fusion" else ""
        self.contracts = [_first_group(rf"\b{side}_contracting_dims={{([\d,]*)}}", rest) for side in ("lhs", "rhs")]
        self.summed = 0  # length of the dimension that a dot contracts


def _first_group(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match.group(1) if match else ""


def _shape(text: str) -> tuple[tuple[int, ...], str]:
    match = re.match(r"\w+\[([\d,]*)\](\{[^}]*\})?", text)
    if not match:
        return (), ""
    return tuple(int(word) for word in match.group(1).split(",") if word), match.group(2) or ""


def module(text: str) -> str:
    """Return the program's name, which traces contain too."""
    return _first_group(r"^HloModule ([^\s,]+)", text)


def computations(text: str) -> dict[str, dict[str, Instruction]]:
    """Parse HLO text into {computation: {name: Instruction}}."""
    parts, here = dict[str, dict[str, Instruction]](), dict[str, Instruction]()
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith((" ", "HloModule")):
            here = parts.setdefault(_first_group(r"^(?:ENTRY )?%?([\w.-]+)", line), {})
            continue
        match = LINE.match(line)
        if match:
            instruction = Instruction(*match.groups())
            here[instruction.name] = instruction
            if instruction.opcode == "dot" and instruction.operands[0] in here and instruction.contracts[0].isdigit():
                instruction.summed = here[instruction.operands[0]].shape[int(instruction.contracts[0])]
    return parts


def rows(
    text: str, row: Callable[[Instruction], str | None], work_kinds: dict[str, str] | None = None
) -> dict[str, tuple[list[str], Any]]:
    """Return {instruction: (rows, column)} of an HLO text.

    `row(instruction)`: its row by its scope, or None. `work_kinds`: from graphs.work_kinds.
    """
    parts, by_name = computations(text), dict[str, tuple[list[str], Any]]()
    for part in parts.values():
        users, opcodes = dict[str, list[str]](), dict[str, list[str]]()
        for instruction in part.values():
            inner = [x for x in parts.get(instruction.calls, {}).values() if x.opcode not in FREE] or [instruction]
            served = sorted({word for word in map(row, inner) if word is not None})
            if instruction.opcode == "copy" and instruction.operands and instruction.operands[0] in part:
                source = part[instruction.operands[0]]
                if source.layout != instruction.layout:
                    served = served or ["layout"]
                elif source.opcode == "parameter":
                    served = ["parameter copy"]
            opcodes[instruction.name] = [x.opcode for x in inner]
            by_name[instruction.name] = (served, column(served, opcodes[instruction.name], work_kinds))
            for operand in instruction.operands:
                users.setdefault(operand, []).append(instruction.name)
        for instruction in reversed(list(part.values())):  # belongs to its only user
            if not by_name[instruction.name][0] and instruction.opcode not in FREE:
                behind = _behind(instruction.name, users, part, by_name)
                served = list(behind.pop()) if len(behind) == 1 else []
                if set(opcodes[instruction.name]) & set(PRODUCTS):  # a gradient that only its update uses
                    served = [re.sub(" update$", " wgrad", x) for x in served]
                by_name[instruction.name] = (served, column(served, opcodes[instruction.name], work_kinds))
    return by_name


def products(text: str) -> set[str]:
    """Return the names of instructions that contain a dot, a convolution or a library call."""
    parts = computations(text)
    every = (instruction for part in parts.values() for instruction in part.values())
    return {
        instruction.name
        for instruction in every
        if any(_multiplies(x) for x in [instruction, *list(parts.get(instruction.calls, {}).values())])
    }


def _multiplies(instruction: Instruction) -> bool:
    return instruction.opcode in PRODUCTS or (
        instruction.opcode == "custom-call" and instruction.op_name.endswith(LIBRARY)
    )


def _behind(
    name: str, users: dict[str, list[str]], part: dict[str, Instruction], by_name: dict[str, tuple[list[str], Any]]
) -> set[tuple[str, ...]]:
    """Return the distinct rows of an instruction's users; a FREE user is replaced by its users."""
    behind = set()
    for user in users.get(name, ()):
        served = by_name[user][0]
        if served or part[user].opcode not in FREE:
            behind.add(tuple(served))
        else:
            behind |= _behind(user, users, part, by_name)
    return behind


def column(served: list[str], opcodes: list[str], work_kinds: dict[str, str] | None = None) -> str | None:
    """Return the kind of work of an instruction; None if its rows are unknown."""
    if not served:
        return None
    kinds = {
        (work_kinds or {}).get(x.rpartition(" ")[0], "") for x in served if x.endswith(WORK) and "activation" not in x
    }
    beside = kinds == {"convolution"} and not set(opcodes) & MOVES  # only its bias or another sum
    if len(kinds) == 1 and kinds != {""} and opcodes != ["copy"] and not beside:
        return kinds.pop()
    if "convolution" in opcodes:
        return "convolution"
    if set(opcodes) & {"dot", "custom-call"}:
        return "gemm"  # what surrounds the product keeps the kind of its symbols
    if opcodes == ["copy"]:
        return "copy"
    if opcodes == ["transpose"]:
        return "packing"
    if opcodes == ["broadcast"]:
        return "clear"
    if served == ["loss"]:
        return "softmax"
    if set(opcodes) & {"reduce", "reduce-window"}:
        return "reduction"
    return "update" if all(x.endswith(" update") for x in served) else "element-wise"


def product(layer: dict[str, Any], instruction: Instruction, batch: int) -> str | None:
    """Return `dgrad` or `wgrad` for a product in a layer's backward pass, or None.

    The shape decides; if it is ambiguous, the contracted dimension: wgrad sums over the first (batch), dgrad over the
    last (outputs).
    """
    if layer["kind"] == "conv":
        weights = sorted(instruction.shape) == sorted(layer["parameters"]["weight"])
        inputs = sorted(instruction.shape) == sorted([batch] + layer["in"][0])
        return ("wgrad" if weights else "dgrad") if weights != inputs else None
    weights = sorted(instruction.shape) == sorted((layer["inputs"], layer["outputs"])) and instruction.summed == batch
    inputs = sorted(instruction.shape) == sorted((batch, layer["inputs"])) and instruction.summed == layer["outputs"]
    if weights != inputs:
        return "wgrad" if weights else "dgrad"
    return {"0": "wgrad", "1": "dgrad"}.get(instruction.contracts[0])
