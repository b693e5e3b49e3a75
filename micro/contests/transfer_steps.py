"""Contests of micro/transfer.py on a training step: feeds, carried state, waits, duplex, chains."""

from __future__ import annotations

from collections.abc import Sequence

from kernels.moved import LENGTH
from kernels.ops.chain.problem import Chain
from kernels.ops.gemm.problem import Gemm
from kernels.ops.transfer.problem import GRADIENTS, HUNDRED, PIECES, Transfer
from kernels.ops.transfer.variants import PEER, PLAIN
from micro.contests.transfer import KIB, MIB, sizes, ways
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

BATCH, INPUTS, OUTPUTS = 64, 26752, 2048  # FCN-S: a batch, its features, units of its first layer
SEQUENCES, HIDDEN, LAYERS = 128, 256, 2  # of the texts' LSTM
STATES = 2  # per layer: output and cell state
STEP = 4 * KIB  # bytes that one of a hundred steps hands over
LINKS = 16  # element-wise kernels of a chain
ELSEWHERE = (0, 1, 4, LINKS)  # of the LINKS
CHAINED = 256 * KIB  # bytes of a chain's array


def _share(asked: Request, word: str, product: Gemm, moved: Transfer, question: str) -> Contest | None:
    """Compare copies with the product that uses the copied operand."""
    by = asked.rows(op="gemm")[:1]
    names = ways(asked, PLAIN, PEER)
    if not by or not names:
        return None
    cases = (asked.case(product, by[0]), *(asked.case(moved, name) for name in names))
    return Contest(f"{word}/{moved.name}", question, "work: differs (a copy, a product)", cases)


def feed(asked: Request) -> list[Contest]:
    """Compare a batch and a carried state with their products, and waits in each step with one wait."""
    contests = []
    for size in sizes(asked, (LENGTH * BATCH * INPUTS,)):
        rows = max(1, size // (LENGTH * INPUTS))
        product, batch = Gemm(rows, OUTPUTS, INPUTS), Transfer(LENGTH * rows * INPUTS)
        contests.append(_share(asked, "feed", product, batch, "what does handing over a batch cost its step?"))
    each = LENGTH * HIDDEN * LAYERS * STATES
    for size in sizes(asked, (each * SEQUENCES,)):
        rows = max(1, size // each)
        product, state = Gemm(rows, 4 * HIDDEN, 2 * HIDDEN), Transfer(each * rows)
        contests.append(_share(asked, "carried", product, state, "what does carrying a state out and in cost a step?"))
    grain = LENGTH * PIECES
    for size in sizes(asked, (PIECES * STEP,)):
        hundred = [Transfer(max(grain, size // grain * grain), HUNDRED, waits) for waits in ("once", "each")]
        contests += _by_peer(asked, f"wait/{hundred[0].name}", "what does waiting in each step cost?", "waits", hundred)
    return [contest for contest in contests if contest is not None]


def duplex(asked: Request) -> list[Contest]:
    """Compare transfers in both directions one after the other and at once."""
    contests = []
    for size in sizes(asked, (4 * MIB, GRADIENTS["fcn-r"].nbytes)):
        forms = [Transfer(size, back=back) for back in ("after", "along")]
        contests += _by_peer(asked, f"duplex/{forms[0].name}", "do both directions at once pay?", "back", forms)
    return contests


def _by_peer(asked: Request, name: str, question: str, differs: str, forms: Sequence[Transfer]) -> list[Contest]:
    """Compare forms by each variant into another process that supports all of them."""
    contests = []
    for way in ways(asked, PEER):
        cases = tuple(asked.case(form, way) for form in forms)
        if way in asked.rows(PEER) and not all(case.skip for case in cases[1:]):
            contests.append(Contest(f"{name}/variant:{way}", question, differs, cases))
    return contests


def chain(asked: Request) -> list[Contest]:
    """Compare chains of element-wise kernels, some of them in another process."""
    return [
        Contest(
            f"interrupted/size:{size}/variant:{name}",
            "what does a share of a chain cost that another memory does?",
            "elsewhere",
            tuple(asked.case(Chain(max(LENGTH, size), LINKS, elsewhere), name) for elsewhere in ELSEWHERE),
        )
        for size in sizes(asked, (CHAINED,))
        for name in ways(asked, PEER)
        if name in asked.rows(op="chain")
    ]
