"""Contests of micro/elementwise.py, each named after the mechanism that it tests."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kernels.ops.activation.problem import Activation
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.cast.problem import Cast
from kernels.ops.dropout.problem import Dropout
from kernels.ops.softmax.problem import Softmax
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

HIDDEN = 64 * 2048  # a hidden layer of FCN-S at batch 64: 512 KiB an operand
IMAGES = 16 * 96 * 55 * 55  # outputs of AlexNet-S's first convolution at batch 16: 18 MiB
IN_CACHE = 4096  # floats: input and output within a first-level cache
NETWORKS = ((64, 26752), (64, 10), (256, 10000))  # (batch, classes): FCN-S; FCN-R; the LSTM at a sixteenth of its rows
LARGEST = (4096, 10000)  # all rows of the LSTM's vocabulary
STREAMED = (("relu", "forward"), ("sigmoid", "forward"), ("tanh", "dgrad"))  # 1, 4 and 3 passes over memory in CuPy


def unique(contests: Iterable[Contest]) -> list[Contest]:
    """Keep one contest per name, since shrunk problems may coincide."""
    return list({contest.name: contest for contest in contests}.values())


def shrunk(asked: Request, problem: Any) -> Any:
    """Return the problem, scaled to about `--count` elements if --count is named."""
    if "count" not in asked.given or asked.op != "activation":
        return problem
    count = int(asked.axes["count"][0])
    edge = max(5, min(getattr(problem, "size", 5), round((count / 6) ** 0.5)))
    change: dict[str, dict[str, int]] = {
        "activation": {"count": count},
        "softmax": {"batch": min(getattr(problem, "batch", 1), 8), "classes": max(2, count // 8)},
        "biasact": {
            "rows": min(getattr(problem, "rows", 1), 8),
            "cols": max(2, count // 8),
            "terms": min(getattr(problem, "terms", 0), 16),
        },
        "dropout": {"units": max(2, count)},
        "pooling": {"images": 2, "channels": 3, "size": edge},
        "norm": {"images": 2, "maps": 3, "size": edge},
        "cast": {"values": count},
    }
    return replace(problem, **change[problem.op])


def named_among(asked: Request, names: Sequence[str]) -> list[str]:
    """Return the variants of `names` that the command line names, or all if it names none of them."""
    mine = [name for name in names if name in asked.variants] if "variant" in asked.given else []
    return mine or list(names)


def here(asked: Request, op: str, names: Sequence[str]) -> list[str]:
    """Return `names` on a CPU, else the device's default variants; of these the named variants, if any."""
    return named_among(asked, names if asked.device.kernels == "cpu" else asked.rows(op=op))


def variants(
    asked: Request, word: str, question: str, problem: Any, names: Sequence[str], library: str = ""
) -> Contest:
    """Return a contest of variants on one problem."""
    problem = shrunk(asked, problem)
    return asked.between(f"{word}/{problem.name}{library and f'/library:{library}'}", question, problem, names)


def along(
    asked: Request, word: str, question: str, problem: Any, variant: str, field: str, values: Sequence[str]
) -> Contest:
    """Return a contest of problems that differ in `field`, run by one variant."""
    problems = [shrunk(asked, replace(problem, **{field: value})) for value in values]
    unequal = len({(x.flops, x.bytes) for x in problems}) > 1
    differs = f"work: differs ({field})" if unequal else field
    return asked.along(f"{word}/{problems[0].name}/variant:{variant}", question, differs, problems, variant)


def _libraries(asked: Request, phase: str = "forward") -> list[str]:
    """Return the variants to compare, or those named; for gradients without Numba, which has none."""
    libraries = asked.rows("library", op=Activation.op)
    return [x for x in named_among(asked, libraries) if phase == "forward" or x != "numba"]


def _from_memory(asked: Request) -> str:
    """Format the end of a question on operands too large for a GPU's caches."""
    return f", in GPU memory, operands of {asked.memory >> 20} MiB or more"


# Activations (E9, E11)


def activations(asked: Request) -> list[Contest]:
    """Return a contest of all implementations per size, function and pass."""
    question = "which variant is fastest?"
    wanted = [("relu", "forward"), ("sigmoid", "forward"), ("tanh", "forward"), ("relu", "dgrad"), ("tanh", "dgrad")]
    contests = [
        variants(asked, "activation", question, Activation(count, kind, phase), _libraries(asked, phase))
        for count in (HIDDEN, IMAGES)
        for kind, phase in wanted
    ]
    if asked.device.undivided:  # input and output; a GPU's caches hold AlexNet-S's outputs
        asks, count = f"which variant is fastest{_from_memory(asked)}?", asked.memory // 8
        contests += [
            variants(asked, "activation", asks, Activation(count, kind, phase), _libraries(asked, phase))
            for kind, phase in STREAMED
        ]
    return contests


def functions(asked: Request) -> list[Contest]:
    """Return contests of sigmoid, tanh and exp against ReLU, at equal traffic."""
    question = "how much slower than ReLU are functions of exponentials?"
    return [
        along(asked, "function", question, Activation(count), name, "kind", ("relu", "sigmoid", "tanh", "exp"))
        for count in (IN_CACHE, HIDDEN, IMAGES)
        for name in _libraries(asked)
        if name != "numba"
    ]


def providers(asked: Request) -> list[Contest]:
    """Return contests of the suite's polynomial exp, tanh and sigmoid against those of libraries."""
    names = asked.rows(op=Activation.op)
    return [
        variants(
            asked, "provider", "which implementation is fastest?", Activation(IN_CACHE, kind), named_among(asked, names)
        )
        for kind in ("exp", "tanh", "sigmoid")
    ]


def places(asked: Request) -> list[Contest]:
    """Return contests of an activation in place against one with a separate output."""
    question = "does overwriting the input save time"
    kinds = (("relu", "forward"), ("sigmoid", "forward"), ("relu", "dgrad"))
    wanted = [(count, kind, f"{question}?") for count in (IMAGES, HIDDEN) for kind in kinds]
    if asked.device.undivided:  # in place there is one operand
        wanted.append((asked.memory // 4, kinds[0], f"{question}{_from_memory(asked)}?"))
    return [
        along(asked, "place", asks, Activation(count, *kind), name, "place", ("out", "in"))
        for count, kind, asks in wanted
        for name in _libraries(asked)
        if name != "numba"
    ]


# Softmax (E2, E3, E4)


def _shapes(asked: Request, count: int = 3) -> tuple[tuple[int, int], ...]:
    """Return (batch, classes) of the first `count` networks, or with --all of all and LARGEST.

    LARGEST alone exceeds a GPU's caches."""
    return (*NETWORKS, LARGEST) if asked.every else NETWORKS[:count]


def fused(asked: Request) -> list[Contest]:
    """Return contests of softmax with cross-entropy: its parts against fused; all fused kernels."""
    question = "how much slower are separate softmax, log, product and sum"
    pairs, rivals = asked.rows("parts", op=Softmax.op), asked.rows("library", op=Softmax.op)
    contests = []
    shapes = dict.fromkeys((*_shapes(asked), *((LARGEST,) if asked.device.undivided else ())))
    for batch, classes in shapes:
        onehot = Softmax(batch, classes, "one-hot")
        far = _from_memory(asked) if asked.device.undivided and (batch, classes) == LARGEST else ""
        contests += [
            variants(asked, "fused", question + far + "?", onehot, (x, f"{x}-parts"), x)
            for x in named_among(asked, pairs)
        ]
        problem, asks = Softmax(batch, classes), f"which variant is fastest{far}?"
        contests.append(variants(asked, "rivals", asks, problem, named_among(asked, rivals)))
    return contests


def doubled(asked: Request) -> list[Contest]:
    """Return contests of a redundant softmax or log-softmax before the loss's softmax against none."""
    question = "what does a redundant softmax before the loss cost?"
    pair = asked.rows("doubled", op=Softmax.op)
    before = ("none", "log-softmax", "softmax")
    return [
        along(asked, "doubled", question, Softmax(batch, classes), name, "before", before)
        for batch, classes in _shapes(asked, 2)
        for name in named_among(asked, pair)
    ]


def labels(asked: Request) -> list[Contest]:
    """Return contests of one-hot labels against indices, and of writing the one-hot rows first."""
    pair, writers = asked.rows("labels", op=Softmax.op), asked.rows("made", op=Softmax.op)
    contests = []
    for batch, classes in _shapes(asked, 2):
        problem = Softmax(batch, classes)
        for name in named_among(asked, pair):
            question = "what does it cost to read one-hot labels?"
            contests.append(along(asked, "labels", question, problem, name, "labels", ("index", "one-hot")))
        if writers:
            question = "what does it cost to write one-hot labels first?"
            contests.append(variants(asked, "labels-made", question, problem, writers))
    return contests


def losses(asked: Request) -> list[Contest]:
    """Return contests of the loss with its gradient against the loss alone."""
    question = "what does the gradient add to the loss?"
    return [
        along(asked, "loss", question, Softmax(*shape), name, "want", ("forward", "step"))
        for shape in _shapes(asked, 2)
        for name in asked.rows("losses", op=Softmax.op)
    ]


# Bias (G8), dropout (E5)


def bias(asked: Request) -> list[Contest]:
    """Return contests of bias and ReLU, and of their gradient: two passes against one."""
    question = "bias and ReLU in one pass, or in two?"
    return [
        variants(asked, "bias", question, BiasAct(rows, 2048, phase=phase), here(asked, BiasAct.op, ("c", "c-passes")))
        for rows in (64, 1024)
        for phase in ("forward", "dgrad")
    ]


def epilogue(asked: Request) -> list[Contest]:
    """Return contests of bias and ReLU after a GEMM, in one or two passes, and as its epilogue."""
    contests = []
    for rows in (64, 1024):
        problem = BiasAct(rows, 2048, 2048 if rows == 64 else 256)
        question = "after a product, in one pass or in two?"
        contests.append(variants(asked, "after-product", question, problem, ("numpy-c", "numpy-c-passes")))
        names = named_among(asked, ("torch", "torch-bias-inside", "onednn-both-inside"))
        contests.append(variants(asked, "inside-product", "fused with the product?", problem, names, "torch"))
    return contests


def dropout(asked: Request) -> list[Contest]:
    """Return contests of dropout with a stored or a recomputed mask, and between implementations."""
    contests = []
    for units in (HIDDEN, IMAGES):
        question = "store the mask, or recompute it?"
        names = named_among(asked, ("c-mask-passes", "c-mask", "c-counter"))
        contests.append(variants(asked, "mask", question, Dropout(units), names))
        names = here(asked, Dropout.op, ("c-mask", "numpy", "torch"))
        contests.append(variants(asked, "rivals", "which variant is fastest?", Dropout(units), names))
    return contests


# Conversions (E12)


def casts(asked: Request) -> list[Contest]:
    """Return contests of type conversions against a copy of as many floats."""
    question = "how much slower is a conversion than a copy?"
    kinds = {"c": ("f32-f32", "f64-f32", "f32-bf16", "bf16-f32"), "numpy": ("f32-f32", "f64-f32")}
    return [
        along(asked, "cast", question, Cast(values), name, "convert", kinds.get(name, kinds["c"]))
        for values in (IMAGES, HIDDEN)
        for name in here(asked, Cast.op, ("c", "numpy", "torch"))
    ]


def clears(asked: Request) -> list[Contest]:
    """Return contests of kernels that fill an array with zeros."""
    names = here(asked, Cast.op, ("c", "memset", "numpy", "torch"))
    return [
        variants(asked, "clear", "which variant clears memory fastest?", Cast(values, "clear"), names)
        for values in (HIDDEN, IMAGES)
    ]
