"""XLA's program as text: which rows its instructions serve, by the names of the scopes they come from.

Standard library alone, and Python 3.6. A fusion serves the rows of all that is in it, but for what is as good
as free there. A copy of a parameter, which XLA puts in where it may not write over it yet, is `parameter copy`.
"""

import re

FREE = set("parameter constant broadcast reshape bitcast bitcast-convert get-tuple-element tuple iota copy".split())
PRODUCTS = ("dot", "convolution")
# How names of what calls of libraries come from end, of JAX's operations and TensorFlow's.
LIBRARY = ("dot_general", "conv_general_dilated", "MatMul", "MatMul_1", "Conv2D")
LIBRARY += ("Conv2DBackpropInput", "Conv2DBackpropFilter")
MOVES = set("convolution dot custom-call pad reverse transpose slice dynamic-slice gather concatenate".split())
WORK = (" forward", " dgrad", " wgrad", " gradient")  # how rows end that are what a layer is for
LINE = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = (\(.*?\)|\S+) ([\w-]+)\((.*)$")


class Instruction(object):
    def __init__(self, name, shape, opcode, rest):
        inside = rest[: rest.find(")")]
        self.name, self.opcode = name, opcode
        self.shape, self.layout = _shape(shape)
        self.operands = re.findall(r"%([\w.-]+)", inside)
        self.op_name = _found(r'op_name="([^"]*)"', rest)
        self.calls = _found(r"\bcalls=%?([\w.-]+)", rest) if opcode == "fusion" else ""
        self.contracts = [_found(r"\b%s_contracting_dims={([\d,]*)}" % side, rest) for side in ("lhs", "rhs")]
        self.summed = 0  # the length that a product sums over


def _found(pattern, text):
    match = re.search(pattern, text)
    return match.group(1) if match else ""


def _shape(text):
    match = re.match(r"\w+\[([\d,]*)\](\{[^}]*\})?", text)
    if not match:
        return (), ""
    return tuple(int(word) for word in match.group(1).split(",") if word), match.group(2) or ""


def module(text):
    """Its name, as traces have it."""
    return _found(r"^HloModule ([^\s,]+)", text)


def computations(text):
    """The instructions of each computation, by name and name."""
    parts, here = {}, {}
    for line in text.splitlines():
        if line.endswith("{") and not line.startswith((" ", "HloModule")):
            here = parts.setdefault(re.match(r"(?:ENTRY )?%?([\w.-]+)", line).group(1), {})
            continue
        match = LINE.match(line)
        if match:
            one = Instruction(*match.groups())
            here[one.name] = one
            if one.opcode == "dot" and one.operands[0] in here and one.contracts[0].isdigit():
                one.summed = here[one.operands[0]].shape[int(one.contracts[0])]
    return parts


def rows(text, row, whole=None):
    """{instruction: (rows, column)}; `row(instruction)` tells the row of one by its name, or None. `whole`: the kind of
    all work of a layer, by its name, of those that have one."""
    parts, by_name = computations(text), {}
    for part in parts.values():
        users, opcodes = {}, {}
        for one in part.values():
            inner = [x for x in parts.get(one.calls, {}).values() if x.opcode not in FREE] or [one]
            served = sorted(set(row(x) for x in inner) - set([None]))
            if one.opcode == "copy" and one.operands and one.operands[0] in part:
                source = part[one.operands[0]]
                if source.layout != one.layout:
                    served = served or ["layout"]
                elif source.opcode == "parameter":
                    served = ["parameter copy"]
            opcodes[one.name] = [x.opcode for x in inner]
            by_name[one.name] = (served, column(served, opcodes[one.name], whole))
            for operand in one.operands:
                users.setdefault(operand, []).append(one.name)
        for one in reversed(list(part.values())):  # a piece of what alone uses it
            if not by_name[one.name][0] and one.opcode not in FREE:
                behind = _behind(one.name, users, part, by_name)
                served = list(behind.pop()) if len(behind) == 1 else []
                if set(opcodes[one.name]) & set(PRODUCTS):  # a gradient that only its update uses
                    served = [re.sub(" update$", " wgrad", x) for x in served]
                by_name[one.name] = (served, column(served, opcodes[one.name], whole))
    return by_name


def products(text):
    """The instructions that multiply: products and convolutions, those inside fusions, and a library's."""
    parts = computations(text)
    every = (one for part in parts.values() for one in part.values())
    return set(
        one.name for one in every if any(_multiplies(x) for x in [one] + list(parts.get(one.calls, {}).values()))
    )


def _multiplies(one):
    return one.opcode in PRODUCTS or (one.opcode == "custom-call" and one.op_name.endswith(LIBRARY))


def _behind(name, users, part, by_name):
    """The rows of what uses an instruction, each once, through what is as good as free."""
    found = set()
    for user in users.get(name, ()):
        served = by_name[user][0]
        if served or part[user].opcode not in FREE:
            found.add(tuple(served))
        else:
            found |= _behind(user, users, part, by_name)
    return found


def column(served, opcodes, whole=None):
    """What kind of work it is; None where only its symbols can say."""
    if not served:
        return None
    kinds = set(
        (whole or {}).get(x.rpartition(" ")[0], "") for x in served if x.endswith(WORK) and "activation" not in x
    )
    beside = kinds == set(["convolution"]) and not set(opcodes) & MOVES  # its bias, or what somebody added to it
    if len(kinds) == 1 and kinds != set([""]) and opcodes != ["copy"] and not beside:
        return kinds.pop()
    if "convolution" in opcodes:
        return "convolution"
    if set(opcodes) & set(("dot", "custom-call")):
        return "gemm"  # what surrounds the product keeps its symbols' kind
    if opcodes == ["copy"]:
        return "copy"
    if opcodes == ["transpose"]:
        return "packing"
    if opcodes == ["broadcast"]:
        return "clear"
    if served == ["loss"]:
        return "softmax"
    if set(opcodes) & set(("reduce", "reduce-window")):
        return "reduction"
    return "update" if all(x.endswith(" update") for x in served) else "element-wise"


def product(layer, one, batch):
    """`dgrad` or `wgrad`: what a product in the backward pass of a layer is, by its shape, then by what it
    sums over: first dimensions for the weights (batch × inputs, batch × outputs), last ones for the input."""
    if layer["kind"] == "conv":
        weights = sorted(one.shape) == sorted(layer["parameters"]["weight"])
        inputs = sorted(one.shape) == sorted([batch] + layer["in"][0])
        return ("wgrad" if weights else "dgrad") if weights != inputs else None
    weights = sorted(one.shape) == sorted((layer["inputs"], layer["outputs"])) and one.summed == batch
    inputs = sorted(one.shape) == sorted((batch, layer["inputs"])) and one.summed == layer["outputs"]
    if weights != inputs:
        return "wgrad" if weights else "dgrad"
    return {"0": "wgrad", "1": "dgrad"}.get(one.contracts[0])
