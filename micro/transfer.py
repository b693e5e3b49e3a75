"""Numbers from one memory into another: the time of gradients, by way and number of pieces."""

from __future__ import annotations

import sys

from kernels.ops.chain.problem import Chain
from kernels.ops.gemm.problem import Gemm
from kernels.ops.transfer.problem import Transfer
from micro.answers import transfer_curve
from micro.command.line import main
from micro.contests import transfer as contests
from micro.planning.benchmark import Benchmark, Question, Useful

QUESTIONS = {
    "curve": Question(
        "how long do 1 KiB to 1 GiB take? What does a call cost, what does each level of the memory give? (a minute, "
        "and two to check what is large)",
        contests.curve,
        transfer_curve.curve,
        seconds=60.0,
    ),
    "team": Question(
        "from which size on do several threads pay, and is our copy as fast as the libraries'? (a minute)",
        contests.team,
        seconds=60.0,
        several=("threads",),
    ),
    "gradients": Question("how long do gradients of eight networks take?", contests.gradients),
    "layers": Question("one buffer, or one a layer? (--buffers fcn-s: of that network)", contests.layers),
    "processes": Question("what does the way into another process cost?", contests.processes),
    "feed": Question("what do a batch, a carried state and a wait cost each step?", contests.feed, seconds=40.0),
    "chain": Question("what does a share of a chain of kernels cost that only another memory has?", contests.chain),
    "beside": Question("how much of a copy to a GPU hides behind products on it?", contests.beside),
    "pageable": Question(
        "what does a copy to a GPU, or from it, cost from memory that is not page-locked?", contests.pageable
    ),
}
# Further operations, whose axes select them in the lines that repeat a case.
OTHERS = (
    Benchmark(
        Chain,
        "A chain of kernels, some in another process.",
        sweep={"size": (contests.CHAINED,), "links": (contests.LINKS,), "elsewhere": (0,)},
    ),
    Benchmark(
        Gemm,
        "The products beside which a step's transfers stand.",
        sweep={"m": (contests.BATCH,), "n": (contests.OUTPUTS,), "k": (contests.INPUTS,)},
    ),
)
BENCHMARK = Benchmark(
    Transfer,
    "Numbers moved from one memory into another, within a process and between two. Without another question: --curve.",
    sweep={"size": (0,)},
    questions=QUESTIONS,
    useful=(
        Useful("--curve"),
        Useful("--gradients"),
        Useful("--curve --size 1024,65536,1048576,16777216,134217728", 330, 20.0),
        Useful("--gradients", 260, 12.0),
        Useful("--beside", 250, 6.0),
        Useful("--pageable", 250, 8.0),
    ),
    small="--size 4096",
    default="curve",
    sweeping=("waits", "back", "clock"),
    limiting=("size",),
    others=OTHERS,
)
if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "transfer"))
