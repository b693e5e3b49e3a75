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
        "how long do copies of 1 KiB to 1 GiB take? What are a call's overhead and each memory level's bandwidth? (a "
        "minute, and two to check large copies)",
        contests.curve,
        transfer_curve.curve,
        seconds=60.0,
    ),
    "team": Question(
        "from which size are several threads faster, and is our copy as fast as the libraries'? (a minute)",
        contests.team,
        seconds=60.0,
        several=("threads",),
    ),
    "gradients": Question("how long do gradients of eight networks take?", contests.gradients),
    "layers": Question("one buffer, or one per layer? (--buffers fcn-s: of that network)", contests.layers),
    "processes": Question("what does a transfer to another process cost?", contests.processes),
    "feed": Question(
        "what do handing over a batch, moving a state and waiting cost per step?", contests.feed, seconds=40.0
    ),
    "chain": Question("what does it cost to run part of a chain of kernels in another memory?", contests.chain),
    "beside": Question("how much of a copy to a GPU overlaps with its products?", contests.beside),
    "pageable": Question("how slow are copies to or from a GPU without page-locked memory?", contests.pageable),
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
        "Products that a step's transfers are compared with.",
        sweep={"m": (contests.BATCH,), "n": (contests.OUTPUTS,), "k": (contests.INPUTS,)},
    ),
)
BENCHMARK = Benchmark(
    Transfer,
    "Copies from one memory to another, within a process and between two. Default question: --curve.",
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
