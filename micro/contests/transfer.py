"""Contests of micro/transfer.py, by way of copying and size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kernels.catalog import find
from kernels.devices import open_device
from kernels.devices.cpu import memory
from kernels.errors import UsageError
from kernels.moved import LENGTH
from kernels.ops.chain.problem import Chain
from kernels.ops.gemm.problem import Gemm
from kernels.ops.transfer.problem import GRADIENTS, HUNDRED, PIECES, SINGLE, Transfer
from kernels.ops.transfer.variants import AWAITED, BESIDE, PEER, PLAIN, TEAM
from kernels.variant import DEFAULT
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# Three or more sizes in every level of the memory; not 512 MiB, which takes long to check and adds nothing.
CURVE = (*(KIB << i for i in range(19)), GIB)
TEAMS = tuple(i * MIB for i in (1, 4, 16, 64, 128, 256, 1024))
STAGED = (64 * KIB, MIB, 16 * MIB, 128 * MIB)  # pageable: up to 64 KiB the driver returns before the copy is done
BETWEEN = (KIB, 256 * KIB, 4 * MIB, 64 * MIB)  # two processes
LEAST = 64 * KIB  # below, thousands of copies within a process take as long as one to another process
PART = 16  # a contest needs up to 8 times its operand, and may use half of the free memory
HELD = 48  # part of the host's memory: each variant holds two operands, mostly page-locked, the bidirectional one four
OF_CASE = 6  # operands' memory per case and worker: two, half as much to place them, and as much left free
MANY_LAYERED = ("resnet-50", "resnet-56")  # of many layers, large and small ones
BATCH, INPUTS, OUTPUTS = 64, 26752, 2048  # FCN-S: a batch, its features, units of its first layer
SEQUENCES, HIDDEN, LAYERS = 128, 256, 2  # of the texts' LSTM
STATES = 2  # per layer: output and cell state
STEP = 4 * KIB  # bytes that one of a hundred steps hands over
LINKS = 16  # element-wise kernels of a chain
ELSEWHERE = (0, 1, 4, LINKS)  # numbers of the LINKS kernels that run in another process
CHAINED = 256 * KIB  # bytes of a chain's array


def sizes(asked: Request, default: Sequence[int], part: int = PART) -> list[int]:
    """Return the requested sizes, or those default sizes that fit 1/`part` of free memory."""
    return list(asked.named("size", (size for size in default if size <= _free(asked) // part)))


def _free(asked: Request) -> int:
    """Return free bytes on the first device; on a GPU at most what the host's memory allows."""
    device = open_device(asked.settings[0].device).limits().memory
    return min(device, PART * memory() // HELD) if asked.device.undivided else device


def curve(asked: Request) -> list[Contest]:
    """Return a contest of all variants per size, from the cost of a call to the bandwidth of memory."""
    question, problems = "how long do transfers of this size take?", map(Transfer, sizes(asked, CURVE))
    return [asked.between(f"curve/{problem.name}", question, problem, asked.chosen()) for problem in problems]


def gradients(asked: Request) -> list[Contest]:
    """Return a contest of the variants per network: all its gradients in one buffer."""
    room = sizes(asked, [gradient.nbytes for gradient in GRADIENTS.values()])
    by_net = {net: gradient.nbytes for net, gradient in GRADIENTS.items() if gradient.nbytes in room}
    question = "how long does a network's gradient take?"
    return [
        asked.between(f"gradient/network:{net}/size:{size}", question, Transfer(size), asked.chosen())
        for net, size in by_net.items()
    ]


def beside(asked: Request) -> list[Contest]:
    """Return contests of a copy to a device, GEMMs on it, and both at once. Discrete devices only."""
    names = asked.rows(BESIDE)
    question, differs = "how much of a copy overlaps with products?", "work: differs (seconds are compared)"
    problems = map(Transfer, sizes(asked, (64 * MIB,)) if names else ())
    return [asked.between(f"beside/{problem.name}", question, problem, names, differs) for problem in problems]


def pageable(asked: Request) -> list[Contest]:
    """Return contests of pageable and pinned memory, per direction, by the caller's clock. GPU only."""
    by_way = [[name for name in asked.chosen(AWAITED) if name.startswith(way)] for way in ("h2d", "d2h")]
    question = "what do copies from or to memory that is not page-locked cost?"
    return [
        asked.between(f"pageable/{problem.name}/way:{names[0][:3]}", question, problem, names)
        for problem in (Transfer(size, clock="caller") for size in (sizes(asked, STAGED) if any(by_way) else ()))
        for names in by_way
        if names
    ]


def layers(asked: Request) -> list[Contest]:
    """Return contests of a buffer per layer against one buffer; between processes also with waits."""
    contests = []
    for net in asked.named("buffers", MANY_LAYERED):
        if net == SINGLE:
            raise UsageError(f"--buffers {net}: --layers compares a single buffer with one per layer; name a network")
        parts = Transfer(0, str(net))
        single = Transfer(parts.size)
        for name in asked.chosen(DEFAULT, PEER):
            forms = (single, parts, replace(parts, waits="each")) if name in asked.rows(PEER) else (single, parts)
            contest, question = f"layers/{net}/variant:{name}", "one buffer, or one per layer?"
            contests.append(asked.along(contest, question, "buffers and waits", forms, name))
    return contests


def processes(asked: Request) -> list[Contest]:
    """Return contests of copies into another process against one within a process, from LEAST bytes on.

    The kernel's direct copy (`vm`) is also compared with a copy through shared memory."""
    contests = []
    every = asked.chosen(PEER)
    for problem in map(Transfer, sizes(asked, BETWEEN) if every else ()):
        within = asked.rows(PLAIN) if problem.size >= LEAST and "variant" not in asked.given else ()
        names = (*within, *every)
        pairs = [(0, i) for i in range(1, len(names))]
        if within and {"shared", "vm"} <= set(names):
            pairs.append((names.index("shared"), names.index("vm")))
        question = "what does a transfer to another process cost?"
        contests.append(asked.between(f"process/{problem.name}", question, problem, names, pairs=pairs))
    return contests


def team(asked: Request) -> list[Contest]:
    """Return contests of several threads against one, and of the suite's copies against the libraries'.

    If memory is short, the threaded copies' cases with one thread are left out."""
    if "threads" in asked.device.refuses:
        return []
    several = dict.fromkeys(setting.threads for setting in asked.settings if setting.threads > 1)
    if "threads" in asked.given and not several:
        raise UsageError("--threads 1: --team compares several threads with one; name more")
    counts = tuple(several) or (open_device(asked.settings[0].device).limits().cores,)
    if counts == (1,):
        raise UsageError("--team: needs several cores; this process may use one")
    names = [name for name in asked.chosen() if name in asked.rows()]
    by_team = [name for name in names if name in asked.rows(TEAM)]
    alone = [(name, 1) for name in names if name not in by_team]
    fewer = alone + [(name, count) for count in counts for name in by_team]
    forms = [(name, 1) for name in by_team] + fewer
    pools = {find(asked.op, name).provider for name in by_team}  # each in processes of its own
    part = OF_CASE * (1 + len(pools) * len(counts))
    return [
        _by_team(asked, Transfer(size), forms if size <= _free(asked) // (part * len(forms)) else fewer)
        for size in (sizes(asked, TEAMS, part * len(fewer)) if forms else ())
    ]


def _by_team(asked: Request, problem: Transfer, forms: Sequence[tuple[str, int]]) -> Contest:
    """Build a contest of `forms`, which are (variant, threads) pairs."""
    cases = [asked.case(problem, name, replace(asked.settings[0], threads=count)) for name, count in forms]
    team_of = [form for form in forms if form[1] > 1]
    pairs = [(forms.index((name, 1)), forms.index((name, n))) for name, n in team_of if (name, 1) in forms]
    by_team = asked.rows(TEAM)
    for name, count in team_of:
        if find(asked.op, name).provider == "suite":
            rivals = [x for x in forms if x[1] == (count if x[0] in by_team else 1)]
            others = [x for x in rivals if find(asked.op, x[0]).provider != "suite"]
            pairs += [(forms.index(other), forms.index((name, count))) for other in others]
    question = "are several threads faster, and is our copy as fast as the libraries'?"
    return Contest(f"team/{problem.name}", question, "variant and threads", tuple(cases), tuple(pairs))


def _share(asked: Request, word: str, product: Gemm, moved: Transfer, question: str) -> Contest | None:
    """Return the contest of copies against the GEMM that reads the copied operand; None if none runs."""
    by = asked.rows(op="gemm")[:1]
    names = asked.chosen(PLAIN, PEER)
    if not by or not names:
        return None
    cases = (asked.case(product, by[0]), *(asked.case(moved, name) for name in names))
    return Contest(f"{word}/{moved.name}", question, "work: differs (a copy, a product)", cases)


def feed(asked: Request) -> list[Contest]:
    """Return contests of copies of a batch or a state against their GEMM, and of waits in each step."""
    contests = []
    for size in sizes(asked, (LENGTH * BATCH * INPUTS,)):
        rows = max(1, size // (LENGTH * INPUTS))
        product, batch = Gemm(rows, OUTPUTS, INPUTS), Transfer(LENGTH * rows * INPUTS)
        contests.append(_share(asked, "feed", product, batch, "what does handing over a batch cost a step?"))
    each = LENGTH * HIDDEN * LAYERS * STATES
    for size in sizes(asked, (each * SEQUENCES,)):
        rows = max(1, size // each)
        product, state = Gemm(rows, 4 * HIDDEN, 2 * HIDDEN), Transfer(each * rows)
        contests.append(_share(asked, "carried", product, state, "what does moving a state out and in cost a step?"))
    grain = LENGTH * PIECES
    for size in sizes(asked, (PIECES * STEP,)):
        hundred = [Transfer(max(grain, size // grain * grain), HUNDRED, waits) for waits in ("once", "each")]
        question = "what does waiting for a reply in each step cost?"
        for way in (x for x in asked.chosen(PEER) if x in asked.rows(PEER)):
            waits = asked.along(f"wait/{hundred[0].name}/variant:{way}", question, "waits", hundred, way)
            contests += [] if all(case.skip for case in waits.cases[1:]) else [waits]
    return [contest for contest in contests if contest is not None]


def chain(asked: Request) -> list[Contest]:
    """Return contests of kernel chains by the number of element-wise kernels in another process."""
    contests, question = [], "what does it cost to run part of a chain in another memory?"
    for size in sizes(asked, (CHAINED,)):
        forms = [Chain(max(LENGTH, size), LINKS, elsewhere) for elsewhere in ELSEWHERE]
        for name in (x for x in asked.chosen(PEER) if x in asked.rows(op="chain")):
            contests.append(asked.along(f"interrupted/size:{size}/variant:{name}", question, "elsewhere", forms, name))
    return contests
