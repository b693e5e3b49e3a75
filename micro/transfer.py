"""Numbers from one memory into another: how long do gradients take, by which way, in how many pieces?"""

from __future__ import annotations

import sys

from kernels.ops.pages.problem import SMALL_PAGE, Pages
from kernels.ops.transfer.problem import Transfer
from micro.answers import transfer as answers
from micro.command.line import main
from micro.contests import transfer as contests
from micro.planning.benchmark import Benchmark, Question, Useful

QUESTIONS = {
    "curve": Question(
        "how long do 1 KiB to 1 GiB take? What does a call cost, what does memory give?", contests.curve, answers.curve
    ),
    "gradients": Question("how long do gradients of eight networks take?", contests.gradients, answers.gradients),
    "layers": Question(
        "one buffer, or one a layer? (--buffers fcn-s: of that network)", contests.layers, answers.layers
    ),
    "processes": Question("what does the way into another process cost?", contests.processes, answers.processes),
    "first_touch": Question("what do new memory and huge pages change?", contests.first_touch, answers.first_touch),
}
OTHERS = (
    Benchmark(
        Pages,
        "Copies into touched and into new memory.",
        sweep={"what": ("copy",), "memory": ("touched", "fresh"), "size": (contests.MEMORY,), "page": (SMALL_PAGE,)},
        questions={},
    ),
)
BENCHMARK = Benchmark(
    Transfer,
    "Numbers moved from one memory into another, within a process and between two. Without another question: --curve.",
    sweep={"size": (1 << 20,)},
    questions=QUESTIONS,
    useful=(Useful("--curve"), Useful("--gradients")),
    small="--size 4096",
    default="curve",
    sweeping=("waits",),
    limiting=("size",),
    others=OTHERS,
)
if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "transfer"))
