"""Contests of micro/cpu.py, by problem, kernel, instruction set and number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernels.catalog import problem_type
from kernels.devices.cpu import cores, features, instruction_sets
from kernels.errors import UsageError
from kernels.isa import SETS
from kernels.openmp import NAMED
from kernels.ops.activation.problem import Activation
from kernels.ops.conv.problem import Conv
from kernels.ops.fft.problem import Fft
from kernels.ops.fma.fastest import peak_of
from kernels.ops.fma.problem import BEFORE, CHAINS
from kernels.ops.gemm.problem import Gemm
from kernels.ops.mma.problem import CORE, Mma
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.softmax.problem import Softmax
from kernels.ops.stream.problem import Stream
from micro.planning.axes import problems
from micro.planning.benchmark import Request
from micro.planning.contest import Case, Contest

MIB = 1 << 20
NUMBERS = 2340 * 16 * 14 * 8 * 4  # multiply-adds of a peak, for every instruction set and number of threads
MANY = (4, 8, 16, 32, 64)  # numbers of threads in the published sweeps
OPERATIONS = "work: differs (operations a second are compared)"
TIMES = (1, 2, 4)  # threads per core
LIBRARIES = {"gemm": ("torch",), "activation": ("torch",), "softmax": ("torch",), "conv": ("torch",)}
PRODUCT = Gemm(1024, 1024, 1024)


@dataclass(frozen=True)
class Work:
    """A problem, and the variants that the questions run on it."""

    title: str
    problem: Any
    variant: str = "c"  # the suite's kernel, compiled for each instruction set
    switched: tuple[str, ...] = ()  # libraries that accept an instruction set and report the one they use
    fixed: tuple[str, ...] = ()  # libraries that choose their instruction set by themselves


def _product(edge: int) -> Work:
    return Work(f"product {edge}³", Gemm(edge, edge, edge), "blocked", ("openblas", "mkl"), ("torch",))


WORKS = (
    *map(_product, (64, 256, 1024)),
    Work("sigmoid of 64 Ki", Activation(1 << 16, "sigmoid"), switched=("torch",), fixed=("numpy",)),
    Work("softmax 256×1000", Softmax(256, 1000), fixed=("torch", "numpy")),
    Work("sum of 1 MiB", Stream("read", MIB)),
    Work("sum of 64 MiB", Stream("read", 64 * MIB)),
    Work("FFT 64×64, 64 images", Fft(64, 64, 64), fixed=("pyfftw", "scipy", "torch")),
    Work("momentum of 4 Mi", Optimizer("momentum", 1, 4 << 20), fixed=("torch-foreach",)),
    Work("convolution 3×3, 64→64", Conv(16, 64, 28, 28, 64, pad=1), "direct", ("torch", "onednn-direct")),
)


def named_sets(asked: Request) -> tuple[str, ...]:
    """Return the requested instruction sets; empty without `--isa`."""
    return tuple(dict.fromkeys(setting.isa for setting in asked.settings)) if "isa" in asked.given else ()


def sets(asked: Request) -> tuple[str, ...]:
    """Return the requested instruction sets, or those of this processor, narrowest first."""
    here = tuple(word for word in SETS if NAMED[word] in instruction_sets())
    return named_sets(asked) or here or ("default",)


def named_threads(asked: Request) -> tuple[int, ...]:
    """Return the requested numbers of threads; empty without `--threads`."""
    return tuple(dict.fromkeys(setting.threads for setting in asked.settings)) if "threads" in asked.given else ()


def narrowed(asked: Request) -> bool:
    """Return whether the command line names a problem size or a variant."""
    return bool(asked.given & {"variant", *asked.axes})


def threads(asked: Request) -> tuple[int, ...]:
    """Return the requested numbers of threads; else powers of two and all usable cores."""
    most = cores()
    return named_threads(asked) or tuple(sorted({most, *(2**i for i in range(most.bit_length()))}))


def works(asked: Request) -> list[Work]:
    """Return all works, or those of the problems that were named; empty if the device is no CPU."""
    if asked.device.kernels != "cpu":
        return []
    alike = [x for x in WORKS if x.problem.op == asked.op]
    if asked.given & asked.axes.keys():
        kind = problem_type(asked.op)
        return [replace(alike[0], title=x.name.replace(":", " "), problem=x) for x in problems(kind, asked.axes)]
    return alike if "variant" in asked.given else list(WORKS)


def rivals(asked: Request, work: Work) -> list[tuple[str, bool]]:
    """Return (variant, whether it accepts an instruction set) pairs.

    These are the suite's kernel and OpenBLAS; with --all also other libraries; or the variants that were named."""
    settable = [(name, True) for name in (work.variant, *work.switched)]
    every = [*settable, *((name, False) for name in work.fixed)]
    if "variant" in asked.given:
        return [(name, dict(every).get(name, True)) for name in asked.variants]
    return every if asked.every else [x for x in every if x[0] in (work.variant, "openblas")]


def case(asked: Request, problem: Any, variant: str, many: int, isa: str) -> Case:
    """Build a case, skipped if this processor lacks the cores or the instruction set."""
    built = asked.case(problem, variant, replace(asked.settings[0], threads=many, isa=isa))
    reasons = []
    if many > cores():
        reasons.append(f"needs {many} cores; this process may use {cores()}")
    if isa in NAMED and NAMED[isa] not in instruction_sets():
        reasons.append(f"this processor lacks {isa}")
    return replace(built, skip=built.skip or reasons[0]) if reasons else built


def contest(
    word: str, title: str, differs: str, cases: Sequence[Case], pairs: Sequence[tuple[int, int]] = ()
) -> Contest:
    """Build a contest of cases that share problem and variant."""
    name = f"{word}/{cases[0].problem.name}/variant:{cases[0].variant}"
    return Contest(name, title, differs, tuple(cases), tuple(pairs))


def grid(asked: Request) -> list[Contest]:
    """Return a contest per kernel: instruction sets × threads against the narrowest set on one thread."""
    contests = [] if narrowed(asked) or not works(asked) else peaks(asked)
    for work in works(asked):
        for name, settable in rivals(asked, work):
            each = sets(asked) if settable else ("default",)
            cases = [case(asked, work.problem, name, many, isa) for isa in each for many in threads(asked)]
            title = f"{work.title}: how much faster with wider instruction sets and more threads?"
            contests.append(contest("grid", title, "isa and threads", cases))
    return contests


def peak(asked: Request, problem: Any, many: int = 1) -> Case:
    """Build a case of a peak, whose problem contains the instruction set."""
    return asked.case(problem, "c", replace(asked.settings[0], threads=many, isa="default"))


def peaks(asked: Request) -> list[Contest]:
    """Return contests of peaks: FP32 FMA by set and threads, bf16 and int8 products by unit."""
    counts = [many for many in threads(asked) if many <= cores()]
    fused, coarse = [], []
    for problem in (peak_of(NAMED[isa]) for isa in sets(asked) if isa in NAMED):
        steps = NUMBERS // (problem.lanes * problem.chains)
        fused += [peak(asked, peak_of(problem.isa, steps // many, many), many) for many in counts]
    for dtype, units in CORE.items() if not named_sets(asked) else ():
        here = [unit for unit in units if unit in features()]
        coarse += [peak(asked, Mma(dtype, unit, processors=many), many) for unit in here for many in counts]
    contests = [
        Contest("peak/fp32", "how fast are multiply-adds in registers?", "isa and threads", tuple(fused)),
        Contest("peak/coarse", "how fast are products of bf16 and int8 in registers?", OPERATIONS, tuple(coarse)),
    ]
    return [x for x in contests if x.cases]


def width(asked: Request) -> list[Contest]:
    """Return contests of each instruction set against the next narrower set, on one and on all threads."""
    each, counts, contests = sets(asked), threads(asked), []
    if len(each) == 1:
        named = f"--isa {each[0]}: " if named_sets(asked) else ""
        raise UsageError(f"{named}--width compares x86 instruction sets: name several, e.g. --isa avx2,avx512")
    for work in works(asked):
        for name, settable in rivals(asked, work):
            if not settable:
                continue
            few = tuple(dict.fromkeys((counts[0], counts[-1])))
            cases = [case(asked, work.problem, name, many, isa) for many in few for isa in each]
            pairs = [(i, i + 1) for i in range(len(cases) - 1) if (i + 1) % len(each)]
            contests.append(contest("width", f"{work.title}: how much faster with wider vectors?", "isa", cases, pairs))
    return contests


def saturation(asked: Request) -> list[Contest]:
    """Return contests of more threads against one; counts without enough cores are skipped."""
    counts = named_threads(asked) or tuple(dict.fromkeys((*threads(asked), *MANY)))
    contests = []
    for work in works(asked):
        for name, _ in rivals(asked, work):
            cases = [case(asked, work.problem, name, many, asked.settings[0].isa) for many in sorted({1, *counts})]
            contests.append(contest("threads", f"{work.title}: how much faster with more threads?", "threads", cases))
    return contests


def oversubscribe(asked: Request) -> list[Contest]:
    """Return contests of more threads than cores against as many, and of nested thread pools."""
    counts = named_threads(asked) or tuple(cores() * times for times in TIMES)
    if max(counts) <= cores():
        raise UsageError(
            f"--threads {max(counts)}: --oversubscribe needs more threads than the {cores()} available cores"
        )
    contests = [] if narrowed(asked) or not works(asked) else nested(asked)
    for work in works(asked):
        if work.variant == "c" and work.problem.op == "stream":  # its team has a core for each
            continue
        for name in asked.named("variant", (work.variant, *LIBRARIES.get(work.problem.op, ()))):
            more = [many for many in sorted({cores(), *counts}) if many >= cores()]
            cases = [asked.case(work.problem, name, replace(asked.settings[0], threads=many)) for many in more]
            title = f"{work.title}: how much do more threads than cores cost?"
            contests.append(contest("oversubscribed", title, "threads", cases))
    return contests


def nested(asked: Request) -> list[Contest]:
    """Return the contest of OpenBLAS's threads against caller threads with one or all of them each.

    OpenBLAS has one pool: callers with many threads take turns in it."""
    many = cores()
    ways = (("openblas", many), (f"nested:{many}x1", many), (f"nested:{many}x{many}", many * many))
    cases = [asked.case(PRODUCT, name, replace(asked.settings[0], threads=count)) for name, count in ways]
    if many == 1:
        return []
    return [
        Contest(f"nested/{PRODUCT.name}", "threads in the library, in its caller, or in both?", "pools", tuple(cases))
    ]


def clock(asked: Request) -> list[Contest]:
    """Return the contest of 128-bit work right after a millisecond of FMA in each instruction set."""
    light = replace(peak_of("sse"), chains=CHAINS)
    if not works(asked):
        return []
    for option, named in (("threads", named_threads(asked)), ("isa", named_sets(asked))):
        if named:
            raise UsageError(
                f"--{option} {named[0]}: --clock tests one core after each instruction set; leave one of the two out"
            )
    cases = tuple(peak(asked, replace(light, after=name)) for name in BEFORE if name in instruction_sets())
    return (
        [Contest("clock/sse", "do wide instructions slow the code after them?", "what ran before", cases)]
        if cases
        else []
    )
