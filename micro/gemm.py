"""Matrix products: the cost of a transposed operand, by size and library, and of a copy instead."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from kernels.catalog import find
from kernels.errors import UsageError
from kernels.ops.gemm.problem import Gemm
from kernels.ops.spmm.problem import Spmm
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Question, Request, Useful
from micro.planning.contest import Contest

if TYPE_CHECKING:
    from reports.record import Run

PUBLISHED = Gemm(1024, 2048, 26752)  # A 1024×26752, B 2048×26752: FCN-S at batch 1024, forward of its first layer
EIGHTH = 3344  # an eighth of the published K: seconds where all of it takes minutes
SMALL_M = (1, 8, 64, 256)
SWEEP_M = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
IN_CACHE_M = (4, 8, 16)  # with N = K = 2048: B within a last-level cache
PRUNED, PRUNED_BATCH = ((4096, 9216), (4096, 4096)), 16  # outputs, inputs: fc6, fc7 of AlexNet-S
LEFT = 0.11  # share of the weights that pruning leaves
CROSSOVER_M = (1, 4, 16, 64, 256, 1024)
SAMPLES = 4096
BATCHES = (4096, 2048, 1024, 256, 64, 16)
REUSED = ("openblas", "mkl")  # libraries with variants that repeat a GEMM within a launch
CUBE = "--m 4096 --n 4096 --k 4096"


def _base(asked: Request) -> Gemm:
    """Return the published GEMM, with axes that were named; a CPU has an eighth of K without --full."""
    base = PUBLISHED if "full" in asked.flags or asked.device.undivided else replace(PUBLISHED, k=EIGHTH)
    return asked.resized(base, "m", "n", "k", "dtype")


def _libraries(asked: Request) -> tuple[list[str], list[str]]:
    """Return the requested libraries that are installed, and those that are not."""
    wanted = asked.chosen("library")
    here = [name for name in wanted if asked.case(PUBLISHED, name).skip is None]
    return here, [name for name in wanted if name not in here]


def _kept(asked: Request, uses: int) -> list[str]:
    """Return the strategies that keep a transposed copy of B for `uses` products."""
    return [f"{name.partition(':')[0]}:{uses}" for name in asked.rows("kept")]


def strategies(asked: Request, base: Gemm, extra: Sequence[str] = ()) -> Contest:
    """Return the contest of three ways to A·Bᵀ: B kept as K×N, read transposed, or transposed first."""
    nt = replace(base, trans="nt")
    names = (*asked.rows("strategy"), *extra)
    cases = (asked.case(base, names[0]), *(asked.case(nt, name) for name in names))
    pairs = [(0, i) for i in range(1, len(cases))] + [(1, i) for i in range(2, len(cases))]
    for once in _kept(asked, 1):
        if once in extra:  # what transposing first costs, against the sum of its parts
            pairs.append((cases.index(asked.case(nt, once)), 2))
    question = "store B as K×N, read it transposed, or transpose it first?"
    return Contest(f"strategy/{base.name}", question, "strategy", cases, tuple(pairs))


def layouts(asked: Request, base: Gemm, library: str, others: tuple[str, ...] = ("nt",)) -> Contest:
    """Return the contest of a library's transposed layouts, such as NT, against its NN."""
    problems = [replace(base, trans=trans) for trans in ("nn", *others)]
    name = f"{'-'.join(('nn', *others))}/{base.name}/variant:{library}"
    return asked.along(name, f"is {library} slower with a transposed operand?", "trans", problems, library)


def transpose(asked: Request) -> list[Contest]:
    """Return the contests of `--transpose`: transposed operands against untransposed ones."""
    base = _base(asked)
    here, missing = _libraries(asked)
    absent = [layouts(asked, base, library) for library in missing]
    lead = next(iter(asked.rows("strategy")), None)
    # A GPU's strategies belong to its leading library: without it there is no contest of strategies.
    first = [strategies(asked, base)] if lead and (lead in here or not asked.device.undivided or not here) else []
    if "full" in asked.flags:
        rest = [layouts(asked, base, library) for library in here if library != lead]
        return [*first, *rest, *absent]
    sizes = asked.named("m", SWEEP_M if asked.every else SMALL_M)
    # A GPU runs all of K in no time, but the check is slow: sweeps use an eighth of K everywhere.
    short = base if "k" in asked.given else replace(base, k=EIGHTH)
    sweep = [layouts(asked, replace(short, m=m), library) for library in here for m in sizes]
    sweep += [layouts(asked, Gemm(m, 2048, 2048), library) for library in here for m in IN_CACHE_M if asked.every]
    if not asked.every:
        # A GPU runs the full product in no time: all its transposition flags, in the leading library.
        flags = [layouts(asked, base, lead, ("nt", "tn", "tt"))] if lead and first and asked.device.undivided else []
        return [*first, *flags, *sweep, *absent]
    kept = [name for uses in (1, 8) for name in _kept(asked, uses)]
    every = [layouts(asked, base, library, ("nt", "tn", "tt")) for library in here]
    return [
        *([strategies(asked, base, kept)] if lead else []),
        *every,
        *sweep,
        *_padding(asked, here),
        *_cold(asked, here),
        *absent,
    ]


def _padding(asked: Request, libraries: list[str]) -> list[Contest]:
    """Return contests of padded leading dimensions against powers of two."""
    square = Gemm(128, 2048, 2048)
    contests = []
    for library, trans in product(libraries, ("nn", "nt")):
        both = [replace(square, trans=trans, ld_pad=pad) for pad in (0, 16)]
        name, question = (
            f"ld_pad/{both[0].name}/variant:{library}",
            f"is {library} slower with leading dimensions of 2^n?",
        )
        contests.append(asked.along(name, question, "ld_pad", both, library))
    return contests


def _cold(asked: Request, libraries: list[str]) -> list[Contest]:
    """Return contests of operands out of cache against operands in cache."""
    small = Gemm(64, 512, 512)
    settings = [replace(asked.settings[0], cold=cold) for cold in ((), ("a", "b", "c"))]
    contests = []
    for library, trans in product(libraries, ("nn", "nt")):
        problem = replace(small, trans=trans)
        cases = tuple(asked.case(problem, library, setting) for setting in settings)
        name = f"cold/{problem.name}/variant:{library}"
        contests.append(Contest(name, f"what do cold operands cost {library}?", "cold", cases))
    return contests


def crossover_at(asked: Request, m: int, library: str) -> Contest:
    """Return the contest of transposing B first against reading it transposed, at one M."""
    base = _base(asked)
    problem = replace(base, m=m, trans="nt", k=base.k if {"k", "full"} & (asked.given | asked.flags) else EIGHTH)
    question = f"is transposing first faster with {library} at M = {m}?"
    name = f"crossover/{problem.name}/variant:{library}"
    _, first, *_ = asked.rows("strategy")  # on a GPU the leading library's
    return asked.between(name, question, problem, (library, first if asked.device.undivided else f"{first}:{library}"))


def crossover(asked: Request) -> list[Contest]:
    """Return contests at several M, which bracket the M from which transposing first wins."""
    here, missing = _libraries(asked)
    reachable = [library for library in (*here, *missing) if "crossover" in find("gemm", library).roles]
    return [crossover_at(asked, m, library) for library in reachable for m in asked.named("m", CROSSOVER_M)]


def sparse(asked: Request) -> list[Contest]:
    """Return contests of a pruned layer's product: dense with its zeros, and as CSR.

    By default AlexNet-S's fc6 and fc7, whose network was pruned from 61 M to 6.7 M parameters."""
    m, k = PRUNED[-1]
    sizes = product(asked.named("m", (m,)), asked.named("k", (k,))) if asked.given & {"m", "k"} else PRUNED
    problems = [Spmm(m, n, k, LEFT) for (m, k), n in product(sizes, asked.named("n", (PRUNED_BATCH,)))]
    question, names = "is a sparse product without the zeros faster?", asked.rows(op="spmm")
    return [asked.between(f"sparse/{x.name}", question, x, names, "work: differs (zeros)") for x in problems]


def types(asked: Request) -> list[Contest]:
    """Return contests of a GEMM in each data type of the device, per variant.

    Types without a hardware unit are slower."""
    base = _base(asked) if asked.given & {"m", "n", "k"} else Gemm(512, 2048, 2048)
    problems, question = (
        [replace(base, dtype=dtype) for dtype in asked.device.dtypes],
        "how much do shorter types save?",
    )
    return [
        asked.along(f"types/{base.name}/variant:{variant}", question, "dtype", problems, variant)
        for variant in asked.rows("types")
    ]


def batches(asked: Request) -> list[Contest]:
    """Return contests of GEMMs with small batches against a GEMM of all samples. Raises UsageError.

    All samples are SAMPLES, or the largest requested M. The same batch is reused, so that its rows stay in cache, like
    activations that were just computed."""
    if asked.device.undivided:
        return []
    every, *parts = sorted(asked.named("m", BATCHES), reverse=True)
    layer = replace(asked.resized(Gemm(SAMPLES, 1024, 1024), "n", "k", "trans"), m=every)
    if not parts:
        raise UsageError(f"--m {every}: --batches compares smaller batches with the largest; name several")
    if odd := [m for m in parts if every % m]:
        raise UsageError(f"--m {odd[0]}: --batches needs divisors of {every}")
    question = f"how long do {every} samples take in smaller batches?"
    differs = "work: differs (the batch; each case does as many products as make up as many samples)"
    contests = []
    for name in asked.named("variant", REUSED):
        pieces = [asked.case(replace(layer, m=m), f"{name}*{every // m}") for m in parts]
        cases = (asked.case(layer, name), *pieces)
        contests.append(Contest(f"batches/n:{layer.n}/k:{layer.k}/variant:{name}", question, differs, cases))
    return contests


def network(asked: Request) -> list[Contest]:
    """Return the contests of `--net`: each fully connected layer's GEMMs, W out×in against in×out."""
    from micro.answers import gemm_network

    here, _ = _libraries(asked)
    return gemm_network.contests(asked, asked.named("variant", here))


# Answers are imported when they are asked for: --help and --list go without.


def transpose_answer(run: Run) -> list[str]:
    """Return the sentences of `--transpose`."""
    from micro.answers import gemm

    return gemm.transpose_answer(run)


def crossover_answer(run: Run) -> list[str]:
    """Return the sentences of `--crossover`."""
    from micro.answers import gemm

    return gemm.CROSSOVER(run)


def refine_crossover(asked: Request, run: Run) -> list[Contest]:
    """Return contests in the middle of each bracket of the crossover that is still wide."""
    from micro.answers import gemm

    return [crossover_at(asked, m, library) for library, m in gemm.CROSSOVER.middles(run)]


def network_answer(run: Run) -> list[str]:
    """Return the sentences of `--net`."""
    from micro.answers import gemm_network

    return gemm_network.answer(run)


PRUNED_LAYER = Benchmark(  # its axis `density` selects it in the lines that repeat cases of --sparse
    Spmm,
    "C = W·B with W sparse, row-major.",
    sweep={"m": (4096,), "n": (PRUNED_BATCH,), "k": (4096,), "density": (LEFT,)},
)
BENCHMARK = Benchmark(
    Gemm,
    "Matrix products, C = alpha·op(A)·op(B) + beta·C, row-major.",
    sweep={"m": (256,), "n": (256,), "k": (256,), "trans": ("nn",)},
    questions={
        "transpose": Question(
            "is multiplying by a transposed matrix slower? (about 30 s)",
            transpose,
            transpose_answer,
            full="only 1024 × 2048 × 26752, with full K (4 to 6 minutes)",
            all="also TN and TT, reused transposed copies, M = 1 … 1024, padded rows, cold operands (4 minutes)",
        ),
        "crossover": Question(
            "from which M is transposing first faster? (about 60 s)",
            crossover,
            crossover_answer,
            seconds=60.0,
            refine=refine_crossover,
            full="with full K = 26752 (4 minutes)",
        ),
        "sparse": Question(
            "is a pruned layer (11 % of weights left) faster as CSR? (about 15 s)", sparse, seconds=15.0
        ),
        "batches": Question("what does a sample cost at each batch size? (about 30 s)", batches),
        "types": Question("how much do bf16 and int8 save? (about 15 s)", types, seconds=15.0),
    },
    useful=(
        Useful("--transpose"),
        Useful("--transpose --variant cublas", 10, 40.0),
        Useful(f"{CUBE} --dtype fp32,tf32,bf16,fp16 --vary dtype --variant cublas,cublaslt,torch-cuda", 70, 15.0),
        Useful(f"{CUBE}", 80, 20.0),
        Useful("--transpose --m 8,256 --variant cublaslt,cupy-raw,cupy,skcuda,torch-cuda", 180, 20.0),
        Useful("--crossover --variant cublas", 210, 15.0),
        Useful(f"--transpose --dtype tf32 --m 1024 --k {EIGHTH} --variant cublas,torch-cuda", 220, 12.0),
        Useful("--sparse", 270, 8.0),
    ),
    small="--m 8 --n 16 --k 8",
    net=Question("which pass pays for the transposition in a step?", network, network_answer, seconds=60.0),
    others=(PRUNED_LAYER,),
)


if __name__ == "__main__":
    sys.exit(main(BENCHMARK, "gemm"))
