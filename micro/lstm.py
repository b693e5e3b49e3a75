"""Recurrent layers: what a formulation, a layout, a loop and a library's sequence cost."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from kernels.devices.cpu import cores
from kernels.ops.bidirectional.problem import Bidirectional
from kernels.ops.gemm.problem import Gemm
from kernels.ops.recurrent import lengths as real
from kernels.ops.recurrent.problem import Recurrent
from kernels.ops.softmax.problem import Softmax
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Question, Request, Useful
from micro.planning.contest import Case, Contest

# Layers of the texts: steps, sequences, inputs, hidden
PTB = Recurrent(32, 128, 256, 256, want="step")  # dlbench's language model, 4096 words a step
FEW_WORDS = replace(PTB, batch=4)  # the same as CNTK ran it: 128 words
NIETZSCHE = Recurrent(40, 128, 57, 128, want="step")
IMDB_GRU = Recurrent(150, 64, 125, 100, "gru", want="step")
BIDIRECTIONAL = Recurrent(100, 32, 128, 64, want="step")  # a direction
MASKED = Recurrent(99, 16, 128, 128, want="step")  # of sequences of 12 to 99 steps
SIZES, MORE_SIZES = (PTB, NIETZSCHE), (PTB, FEW_WORDS, NIETZSCHE, IMDB_GRU, BIDIRECTIONAL, MASKED)
BATCHES, MORE_BATCHES = (16, 128), (1, 16, 64, 128)
AGAIN = ("c-concatenated", "c-batched-steps")  # variants that are compared with c-split too
PACKED = ("c-split", "c-packed"), ("torch", "torch-packed")  # variants that pad, and that pack
WORDS = 10_000  # of the language model
HIDDEN, MORE_HIDDEN = (64, 256), (32, 64, 128, 256, 512)


def _layers(asked: Request, usual: tuple[Recurrent, ...]) -> Iterator[Recurrent]:
    """Yield the layers of a question, with the axes that the command line names."""
    axes = ("steps", "batch", "inputs", "hidden", "cell", "layout", "want")
    yield from dict.fromkeys(asked.resized(layer, *axes) for layer in usual)


def formulation(asked: Request) -> list[Contest]:
    """Return a contest per layer: a product per gate, per operand, or for all steps, and the libraries' sequences."""
    question, contests = "what do fewer, larger products save?", []
    for layer in _layers(asked, MORE_SIZES if asked.every else SIZES):
        names = asked.chosen("formulation")
        pairs = [(0, i) for i in range(1, len(names))]
        pairs += [(names.index("c-split"), names.index(x)) for x in AGAIN if {x, "c-split"} <= {*names}]
        pairs = list(dict.fromkeys(pairs))
        contests.append(asked.between(f"formulation/{layer.name}", question, layer, names, pairs=pairs))
    return contests


def sweep(asked: Request) -> list[Contest]:
    """Return a contest per batch and hidden size: a product per gate against one of all gates."""
    question, contests = "from which size on do gates in one product pay?", []
    batches = asked.named("batch", MORE_BATCHES if asked.every else BATCHES)
    for hidden in asked.named("hidden", MORE_HIDDEN if asked.every else HIDDEN):
        for batch in batches:
            layer = replace(next(_layers(asked, (PTB,))), batch=batch, hidden=hidden, inputs=hidden)
            contests.append(asked.between(f"sweep/{layer.name}", question, layer, asked.chosen("sweep")))
    return contests


def once(asked: Request) -> list[Contest]:
    """Return the contest of a weights' gradient summed step by step against one product over all steps."""
    question = "weights' gradients a step at a time, or of all steps at once?"
    layers = _layers(asked, (PTB, NIETZSCHE) if asked.every else (PTB,))
    return [asked.between(f"once/{x.name}", question, x, asked.chosen("once")) for x in layers]


def major(asked: Request) -> list[Contest]:
    """Return contests, by variant, of batch-major against time-major sequences."""
    question, contests = "what does a batch-major sequence cost?", []
    for layer in _layers(asked, (PTB,)):
        both = [replace(layer, layout=word) for word in ("tnc", "ntc")]
        for name in asked.chosen("layout"):
            contests.append(asked.along(f"layout/{layer.name}/{name}", question, "layout", both, name))
    return contests


def swap(asked: Request) -> list[Contest]:
    """Return contests, by variant, of as many words with batch and steps swapped, and of as many steps of few words."""
    question = "what do as many words cost in more steps of fewer sequences?"
    contests, layer = [], next(_layers(asked, (PTB,)))
    swapped = dict.fromkeys((layer, replace(layer, steps=layer.batch, batch=layer.steps)))
    few = dict.fromkeys((layer, replace(layer, batch=max(1, layer.batch // layer.steps))))
    fewer = "what does a batch cost that counts words, against one that counts sequences?"
    for name in asked.chosen("swap"):
        if len(swapped) > 1:
            contests.append(asked.along(f"swap/{layer.name}/{name}", question, "steps and batch", swapped, name))
        if len(few) > 1:
            contests.append(asked.along(f"words/{layer.name}/{name}", fewer, "work: differs (words)", few, name))
    return contests


def padding(asked: Request) -> list[Contest]:
    """Return contests of one batch of real lengths: padded to the longest of all, to its longest, and packed."""
    contests, layer, longest = [], next(_layers(asked, (MASKED,))), real.every()[-1]
    for order in (word for word in asked.named("lengths", ("shuffled", "sorted")) if word != "full"):
        padded = replace(layer, steps=longest, lengths=order)  # refuses more sequences than there are
        short, parts = replace(padded, steps=padded.each[0]), real.batches(layer.batch, order)
        waste = f"{real.padding(parts, longest):.1%} to {longest} steps, {real.padding(parts):.1%} to its longest"
        question = f"what does padding cost (of all batches, lengths {order}: {waste}), and what does packing save?"
        for pads, packs in PACKED:
            pairs = dict.fromkeys(((padded, pads), (short, pads), (short, packs)))
            cases = [asked.case(x, name) for x, name in pairs if name in asked.chosen("lengths")]
            if len(cases) > 1:
                contests.append(Contest(f"lengths/{short.name}/{pads}", question, "steps and variant", tuple(cases)))
    if "lengths" not in asked.given:
        contests += _orders(asked, layer)
    return contests


def _orders(asked: Request, layer: Recurrent) -> list[Contest]:
    """Return contests of a batch of shuffled lengths and of one of sorted lengths, with about as many words."""
    both = [replace(layer, steps=real.middle(layer.batch, x)[0], lengths=x) for x in ("shuffled", "sorted")]
    question = "how much shorter is a step of sequences of about the same length?"
    names = [pads for pads, _ in PACKED if pads in asked.chosen("lengths")]
    return [asked.along(f"order/{layer.name}/{x}", question, "work: differs (order)", both, x) for x in names]


def loop(asked: Request) -> list[Contest]:
    """Return a contest per layer: a library's sequence against loops over its cell and over its operations."""
    question = "what does a loop over the steps cost?"
    layers = _layers(asked, MORE_SIZES if asked.every else SIZES)
    names = asked.chosen("loop", *(["compiled"] if asked.every else []))
    return [asked.between(f"loop/{x.name}", question, x, names) for x in layers]


def both(asked: Request) -> list[Contest]:
    """Return a contest per layer of both directions: one after another, or at once in a thread each."""
    question, contests = "both directions one after another, or at once in a thread each?", []
    threads = asked.settings[0].threads if "threads" in asked.given else min(2, cores())
    for layer in _layers(asked, (BIDIRECTIONAL,)):
        pair = Bidirectional(layer.steps, layer.batch, layer.inputs, layer.hidden, layer.cell, want=layer.want)
        names = asked.named("variant", asked.rows(op=pair.op))
        cases = [asked.case(pair, name, replace(asked.settings[0], threads=threads)) for name in names]
        contests.append(Contest(f"both/{pair.name}", question, "variant", tuple(cases)))
    return contests


def softmax(asked: Request) -> list[Contest]:
    """Return the contest of a language model's layer, the product of its states with all words, and their softmax."""
    layer = replace(next(_layers(asked, (PTB,))), want="forward")
    states = layer.steps * layer.batch
    behind = (Gemm(states, WORDS, layer.hidden), Softmax(states, WORDS, want="forward"))
    cases = [asked.case(layer, name) for name in asked.chosen("swap")]
    cases += [_by_pytorch([asked.case(part, name) for name in asked.rows(op=part.op)]) for part in behind]
    question = f"what do {WORDS} words cost behind a layer: their product, and their softmax?"
    return [Contest(f"softmax/{layer.name}", question, "work: differs (a layer, a product, a softmax)", tuple(cases))]


def _by_pytorch(cases: list[Case]) -> Case:
    """Return a case that can run, PyTorch's where there is one; else the first."""
    run = [case for case in cases if not case.skip]
    return next((case for case in run if case.variant == "torch"), (run or cases)[0])


# Further operations, whose axes select them in the lines that repeat a case.
OTHERS = (
    Benchmark(
        Bidirectional,
        "Recurrent layers of two directions.",
        sweep={"directions": (2,), "steps": (100,), "batch": (32,), "inputs": (128,), "hidden": (64,)},
    ),
    Benchmark(Gemm, "Products with all words.", sweep={"m": (4096,), "n": (WORDS,), "k": (256,)}),
    Benchmark(Softmax, "Softmax of all words.", sweep={"batch": (4096,), "classes": (WORDS,)}),
)
BENCHMARK = Benchmark(
    Recurrent,
    "Recurrent layers (LSTM, GRU, tanh) over a sequence. Default question: --formulation.",
    sweep={"steps": (32,), "batch": (128,), "inputs": (256,), "hidden": (256,)},
    questions={
        "formulation": Question(
            "what do fewer, larger products save? (about 60 s)", formulation, seconds=60.0, all="all layers of texts"
        ),
        "sweep": Question(
            "from which size on do gates in one product pay? (about 60 s)", sweep, seconds=60.0, all="more sizes"
        ),
        "once": Question(
            "gradients of weights a step at a time, or at once? (about 20 s)", once, seconds=20.0, all="two layers"
        ),
        "major": Question("what does a batch-major sequence cost? (about 30 s)", major, seconds=30.0),
        "swap": Question("what do as many words cost in more steps? (about 30 s)", swap, seconds=30.0),
        "padding": Question("what does padding cost, and packing save? (about 30 s)", padding, seconds=30.0),
        "loop": Question(
            "what does a loop over the steps cost? (about 60 s)",
            loop,
            seconds=60.0,
            all="all layers, and a compiled loop",
        ),
        "both": Question("both directions one after another, or at once? (about 30 s)", both),
        "softmax": Question("what do all words cost behind a layer? (about 30 s)", softmax),
    },
    useful=(
        *map(Useful, ("--formulation", "--once", "--major", "--swap", "--padding", "--loop", "--both", "--softmax")),
        Useful("--formulation", 310, 8.0),
    ),
    small="--batch 4 --inputs 5 --hidden 6",
    default="formulation",
    sweeping=("cell", "layout", "want", "lengths"),
    others=OTHERS,
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "lstm"))
