"""Cost of a call before any work: the same small kernel from C, through bindings, through frameworks."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from kernels.catalog import find
from kernels.ops.launch.problem import Calls
from kernels.ops.launch.variants import OWN_CLOCK
from kernels.variant import DEFAULT
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Question, Request, Useful
from micro.planning.contest import Contest

CHAIN = 512  # calls in a launch of the ladder, so that the harness adds less than 2 % to a launch
BESIDE = 64  # calls in a launch that is compared with the harness's empty launch
CHAINS, MORE_CHAINS = (1, 4, 16, 64), (1, 2, 4, 8, 16, 32, 64)
QUARTER = 4  # a launch fills 1/QUARTER of a device's queue, so that several launches fit


def _rungs(asked: Request, kernel: str) -> tuple[str, ...]:
    """Return the ways of calling this kernel, or those named; slow ones only with --all."""
    rungs = asked.rows(*((DEFAULT, "slow") if asked.every else ()))
    return asked.named("variant", (x for x in rungs if find("launch", x).accepts(Calls(kernel, 1)) is None))


def _kernels(asked: Request) -> tuple[str, ...]:
    return asked.axes["kernel"]


def _length(asked: Request) -> int:
    """Return the default number of calls in a launch."""
    queue = asked.device.queue if asked.device.undivided else 0
    return max(1, queue // QUARTER) if queue else CHAIN


def rungs(asked: Request, kernel: str, chain: int) -> Contest:
    """Return the contest of all ways of calling a kernel, in launches of `chain` calls."""
    problem, question = Calls(kernel, chain), "what does one call cost through each interface?"
    return asked.between(f"ladder/{problem.name}", question, problem, _rungs(asked, kernel))


def floor(asked: Request, harness: str) -> Contest | None:
    """Return the contest of the cheapest ways of calling kernels against an empty launch, if there is any.

    It is separate from the ladder, since all cases of a contest have the same number of launches in a sample, and the
    slowest way would take seconds."""
    beneath = [(kernel, rung) for kernel in _kernels(asked) for rung in asked.rows(f"{harness}:{kernel}")]
    wanted = [(kernel, rung) for kernel, rung in beneath if rung in _rungs(asked, kernel)]
    cases = [asked.case(Calls(kernel, BESIDE), rung) for kernel, rung in wanted]
    if not cases:
        return None
    first = asked.case(Calls("empty", 1), harness)
    question = "how much of a call's time is harness overhead?"
    return Contest(f"floor/{harness}", question, "work: differs (calls)", (first, *cases))


def chains(asked: Request, kernel: str, rung: str, lengths: Sequence[int]) -> Contest:
    """Return the contest of launches of several calls against launches of the first length."""
    problems = [Calls(kernel, length) for length in lengths]
    question = f"what does {rung} save if a launch contains several calls?"
    return asked.along(f"chain/kernel:{kernel}/variant:{rung}", question, "chain", problems, rung)


def ladder(asked: Request) -> list[Contest]:
    """Return the contests of `--ladder`: ways of calling, the harness's part, and calls per launch."""
    given = asked.named("chain", ())
    contests = [rungs(asked, kernel, chain) for kernel in _kernels(asked) for chain in given or (_length(asked),)]
    contests += filter(None, (floor(asked, harness) for harness in asked.rows("harness")))
    lengths = given if len(given) > 1 else () if given else MORE_CHAINS if asked.every else CHAINS
    everything = asked.every or "variant" in asked.given
    for kernel in _kernels(asked) if lengths else ():
        if kernel == "gemm" or everything or len(_kernels(asked)) == 1:  # empty kernels only on request
            wanted = [x for x in _rungs(asked, kernel) if everything or x in asked.rows("chain")]
            contests += [chains(asked, kernel, rung, lengths) for rung in wanted]
    return contests


def gaps(asked: Request) -> list[Contest]:
    """Return contests of kernels back to back in a stream or graph, by a GPU's clock; [] without a GPU."""
    if not (ways := asked.chosen(OWN_CLOCK)):
        return []
    chains, question = asked.named("chain", (_length(asked),)), "how long after a kernel does the next kernel end?"
    problems = [Calls(kernel, chain, "device") for kernel in _kernels(asked) for chain in chains]
    return [asked.between(f"gap/{problem.name}", question, problem, ways) for problem in problems]


BENCHMARK = Benchmark(
    Calls,
    "Overhead of one call: an 8×8×8 product, or an empty function. Default question: --ladder.",
    sweep={"kernel": ("gemm", "empty"), "chain": (1,)},
    questions={
        "ladder": Question(
            "what does a call cost from C, through each binding and each framework? (about 30 s)",
            ladder,
            all="also rungs that need half a minute of preparation, e.g. torch.compile",
        ),
        "gaps": Question(
            "how long does a GPU take from one kernel to the next (GPU clock), in a stream and in a graph?", gaps
        ),
    },
    useful=(Useful("--ladder"), Useful("--ladder", 50, 15.0), Useful("--gaps", 60, 4.0)),
    small="--chain 2",
    default="ladder",
    sweeping=("clock",),
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "launch"))
