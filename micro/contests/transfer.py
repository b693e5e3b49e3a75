"""The contests of micro/transfer.py: which ways are set against each other, at which sizes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from kernels.errors import UsageError
from kernels.ops.pages.problem import HUGE_PAGE, SMALL_PAGE, Pages
from kernels.ops.transfer.gradients import GRADIENTS
from kernels.ops.transfer.problem import ONE, Transfer
from kernels.ops.transfer.variants import PEER
from kernels.variant import DEFAULT
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
CURVE = tuple(KIB << 2 * i for i in range(11))  # 1 KiB … 1 GiB
PART = 16  # a contest takes up to 8 of its operands, and half of what is free may be taken
MEMORY = 128 * MIB
PIECES = ("resnet-50", "resnet-56")  # of many layers, large and small ones


def _named(asked: Request, axis: str, default: Sequence[object]) -> tuple[object, ...]:
    return tuple(asked.axes[axis] if axis in asked.given else default)


def sizes(asked: Request, default: Sequence[int]) -> list[int]:
    """Those that a person named, or of the question's those that there is room for."""
    if "size" in asked.given:
        return list(asked.axes["size"])
    from kernels.devices import open_device

    most = open_device(asked.settings[0].device).limits().memory // PART
    return [size for size in default if size <= most]


def ways(asked: Request, *roles: str) -> tuple[str, ...]:
    """The rows that a person named, or those of these roles."""
    return asked.variants if "variant" in asked.given else asked.rows(*roles)


def _contests(asked: Request, word: str, problems: Iterable[Transfer], question: str, *roles: str) -> list[Contest]:
    """The ways against the first of them, one contest a problem."""
    return [
        Contest(
            f"{word}/{problem.name}",
            question,
            "variant",
            tuple(asked.case(problem, name) for name in ways(asked, *roles)),
        )
        for problem in problems
    ]


def curve(asked: Request) -> list[Contest]:
    """Every way at each size, from what a call costs to what memory gives."""
    problems = [Transfer(size) for size in sizes(asked, CURVE)]
    return _contests(asked, "curve", problems, "how long does it take to move so many bytes?")


def gradients(asked: Request) -> list[Contest]:
    """A gradient of each network in one buffer."""
    every = [Transfer(gradient.nbytes) for gradient in GRADIENTS.values()]
    left = [problem for problem in every if problem.size in sizes(asked, [x.size for x in every])]
    return _contests(asked, "gradient", left, "how long does a network's gradient take?")


def layers(asked: Request) -> list[Contest]:
    """One buffer against one a layer, by way; in another process' memory with a word awaited for each, too."""
    contests = []
    for net in _named(asked, "buffers", PIECES):
        if net == ONE:
            raise UsageError(f"--buffers {net}: --layers sets it against one a layer; name a network")
        size = GRADIENTS[str(net)].nbytes
        whole, parts = Transfer(size), Transfer(size, str(net))
        for name in ways(asked, DEFAULT, PEER):
            forms = (whole, parts, replace(parts, waits="each")) if name in asked.rows(PEER) else (whole, parts)
            cases = tuple(asked.case(form, name) for form in forms)
            question = "one buffer, or one a layer?"
            contests.append(Contest(f"layers/{net}/variant:{name}", question, "buffers and waits", cases))
    return contests


def processes(asked: Request) -> list[Contest]:
    """Ways into another process against a copy within one."""
    first = "memcpy" if "variant" not in asked.given else asked.variants[0]
    names = tuple(dict.fromkeys((first, *ways(asked, PEER))))
    return [
        Contest(
            f"process/{problem.name}",
            "what does the way into another process cost?",
            "variant",
            tuple(asked.case(problem, name) for name in names),
        )
        for problem in (Transfer(size) for size in sizes(asked, CURVE[:1] + CURVE[4:9:2]))
    ]


def first_touch(asked: Request) -> list[Contest]:
    """A copy into touched memory and into new, in small pages and in huge ones."""
    contests = []
    for size in sizes(asked, (MEMORY,)):
        whole = max(HUGE_PAGE, size // HUGE_PAGE * HUGE_PAGE)
        for page in (SMALL_PAGE, HUGE_PAGE):
            rows = [Pages("copy", kind, whole, page) for kind in ("touched", "fresh")]
            name, question = f"memory/page:{page}/size:{whole}", "what does memory cost that is new?"
            contests.append(Contest(name, question, "memory", tuple(asked.case(row, "c") for row in rows)))
        huge = [Pages("copy", "touched", whole, page) for page in (SMALL_PAGE, HUGE_PAGE)]
        cases = tuple(asked.case(row, "c") for row in huge)
        contests.append(Contest(f"memory/pages/size:{whole}", "do huge pages pay?", "page", cases))
    return contests
