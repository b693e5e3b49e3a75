"""Contests of micro/cpu.py: problems, kernels, instruction sets and numbers of threads."""

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
NUMBERS = 2340 * 16 * 14 * 8 * 4  # multiply-adds of a peak, whatever the set and the number of threads
MANY = (4, 8, 16, 32, 64)  # threads of the texts' sweeps
OPERATIONS = "work: differs (operations a second are compared)"
TIMES = (1, 2, 4)  # threads a core
LIBRARIES = {"gemm": ("torch",), "activation": ("torch",), "softmax": ("torch",), "conv": ("torch",)}
PRODUCT = Gemm(1024, 1024, 1024)


@dataclass(frozen=True)
class Work:
    """A problem and its kernels."""

    title: str
    problem: Any
    variant: str = "c"  # the suite's kernel, compiled for each instruction set
    switched: tuple[str, ...] = ()  # libraries that accept an instruction set and report the one they use
    fixed: tuple[str, ...] = ()  # libraries that choose by themselves, each a separate column


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
    """Report whether the command names a problem or a kernel."""
    return bool(asked.given & {"variant", *asked.axes})


def threads(asked: Request) -> tuple[int, ...]:
    """Return the requested numbers of threads; else powers of two and all usable cores."""
    most = cores()
    return named_threads(asked) or tuple(sorted({most, *(2**i for i in range(most.bit_length()))}))


def works(asked: Request) -> list[Work]:
    """Return all works, or those of the requested problems; none where the device is no processor."""
    if asked.device.kernels != "cpu":
        return []
    alike = [x for x in WORKS if x.problem.op == asked.op]
    if asked.given & asked.axes.keys():
        kind = problem_type(asked.op)
        return [replace(alike[0], title=x.name.replace(":", " "), problem=x) for x in problems(kind, asked.axes)]
    return alike if "variant" in asked.given else list(WORKS)


def rivals(asked: Request, work: Work) -> list[tuple[str, bool]]:
    """Return kernels, and whether each accepts an instruction set.

    These are the suite's and OpenBLAS; with --all the libraries too; or the requested ones."""
    settable = [(name, True) for name in (work.variant, *work.switched)]
    every = [*settable, *((name, False) for name in work.fixed)]
    if "variant" in asked.given:
        return [(name, dict(every).get(name, True)) for name in asked.variants]
    return every if asked.every else [x for x in every if x[0] in (work.variant, "openblas")]


def case(asked: Request, problem: Any, variant: str, many: int, isa: str) -> Case:
    """Build a case, skipped if cores or instruction set are lacking."""
    built = asked.case(problem, variant, replace(asked.settings[0], threads=many, isa=isa))
    reasons = []
    if many > cores():
        reasons.append(f"this process may use {cores()} cores, not {many}")
    if isa in NAMED and NAMED[isa] not in instruction_sets():
        reasons.append(f"this processor has no {isa}")
    return replace(built, skip=built.skip or reasons[0]) if reasons else built


def contest(
    word: str, title: str, differs: str, cases: Sequence[Case], pairs: Sequence[tuple[int, int]] = ()
) -> Contest:
    """Build a contest over cases of one problem and kernel."""
    name = f"{word}/{cases[0].problem.name}/variant:{cases[0].variant}"
    return Contest(name, title, differs, tuple(cases), tuple(pairs))


def grid(asked: Request) -> list[Contest]:
    """Compare each kernel by instruction set and threads with its narrowest set on one thread."""
    contests = [] if narrowed(asked) or not works(asked) else peaks(asked)
    for work in works(asked):
        for name, settable in rivals(asked, work):
            each = sets(asked) if settable else ("default",)
            cases = [case(asked, work.problem, name, many, isa) for isa in each for many in threads(asked)]
            title = f"{work.title}: what do instruction sets and threads bring?"
            contests.append(contest("grid", title, "isa and threads", cases))
    return contests


def peak(asked: Request, problem: Any, many: int = 1) -> Case:
    """Build the case of a kernel whose problem, not its library, fixes the instruction set."""
    return asked.case(problem, "c", replace(asked.settings[0], threads=many, isa="default"))


def peaks(asked: Request) -> list[Contest]:
    """Build multiply-adds in registers by set and threads, and coarse products by available unit."""
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
    """Compare each instruction set with the next narrower, on one thread and on all, in shared rounds."""
    each, counts, contests = sets(asked), threads(asked), []
    if len(each) == 1:
        named = f"--isa {each[0]}: " if named_sets(asked) else ""
        raise UsageError(f"{named}--width sets one instruction set against another: --isa avx2,avx512, of x86")
    for work in works(asked):
        for name, settable in rivals(asked, work):
            if not settable:
                continue
            few = tuple(dict.fromkeys((counts[0], counts[-1])))
            cases = [case(asked, work.problem, name, many, isa) for many in few for isa in each]
            pairs = [(i, i + 1) for i in range(len(cases) - 1) if (i + 1) % len(each)]
            contests.append(contest("width", f"{work.title}: what do wider vectors bring?", "isa", cases, pairs))
    return contests


def saturation(asked: Request) -> list[Contest]:
    """Compare one thread with more; counts of the texts' machines are skipped where cores are lacking."""
    counts = named_threads(asked) or tuple(dict.fromkeys((*threads(asked), *MANY)))
    contests = []
    for work in works(asked):
        for name, _ in rivals(asked, work):
            cases = [case(asked, work.problem, name, many, asked.settings[0].isa) for many in sorted({1, *counts})]
            contests.append(contest("threads", f"{work.title}: what do threads bring?", "threads", cases))
    return contests


def oversubscribe(asked: Request) -> list[Contest]:
    """Compare as many threads as cores with more, in OpenMP's and PyTorch's pools, and nested pools."""
    counts = named_threads(asked) or tuple(cores() * times for times in TIMES)
    if max(counts) <= cores():
        raise UsageError(f"--threads {max(counts)}: --oversubscribe takes more than the {cores()} cores that are here")
    contests = [] if narrowed(asked) or not works(asked) else nested(asked)
    for work in works(asked):
        if work.variant == "c" and work.problem.op == "stream":  # its team has a core for each
            continue
        for name in asked.named("variant", (work.variant, *LIBRARIES.get(work.problem.op, ()))):
            more = [many for many in sorted({cores(), *counts}) if many >= cores()]
            cases = [asked.case(work.problem, name, replace(asked.settings[0], threads=many)) for many in more]
            title = f"{work.title}: what do more threads than cores cost?"
            contests.append(contest("oversubscribed", title, "threads", cases))
    return contests


def nested(asked: Request) -> list[Contest]:
    """Compare OpenBLAS's threads with caller threads of one or of many library threads each.

    OpenBLAS has one pool: callers with many threads take turns in it."""
    many = cores()
    ways = (("openblas", many), (f"nested:{many}x1", many), (f"nested:{many}x{many}", many * many))
    cases = [asked.case(PRODUCT, name, replace(asked.settings[0], threads=count)) for name, count in ways]
    if many == 1:
        return []
    return [
        Contest(f"nested/{PRODUCT.name}", "whose threads: a library's, its caller's, or both's?", "pools", tuple(cases))
    ]


def clock(asked: Request) -> list[Contest]:
    """Compare 128-bit work just after a millisecond of multiply-adds of each instruction set."""
    light = replace(peak_of("sse"), chains=CHAINS)
    if not works(asked):
        return []
    for option, named in (("threads", named_threads(asked)), ("isa", named_sets(asked))):
        if named:
            raise UsageError(f"--{option} {named[0]}: --clock is of one core, after each set; leave one of the two out")
    cases = tuple(peak(asked, replace(light, after=name)) for name in BEFORE if name in instruction_sets())
    return [Contest("clock/sse", "does a wide set slow what follows?", "what ran before", cases)] if cases else []
