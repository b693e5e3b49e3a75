"""Numbers from one memory into another: every way is right, wrong ones are refused, what questions compare and say."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.devices.cpu import Cpu, cores
from kernels.errors import Unavailable, UsageError, WrongResult
from kernels.launch import Launch, Setting
from kernels.ops.transfer import Transfer, copies, peers, variants
from kernels.ops.transfer.gradients import GRADIENTS
from kernels.variant import Variant
from micro import transfer
from micro.answers import transfer as answers
from micro.planning.contest import Contest
from micro.planning.options import request
from micro.planning.request import planned
from micro.worker.check import check

LAYERS = Transfer(GRADIENTS["alexnet-r"].nbytes, "alexnet-r")
PROBLEMS = (Transfer(4), Transfer(4 * 1003), Transfer(1 << 20), LAYERS, Transfer(LAYERS.size, "alexnet-r", "each"))
# Bytes of the literature, one by one.
BYTES = {
    "fcn-s": 471_990_784,
    "alexnet-s": 249_513_376,
    "resnet-50": 102_228_128,
    "fcn-r": 56_823_848,
    "lstm": 24_722_496,
    "karmanov-cnn": 13_766_368,
    "resnet-56": 3_412_072,
    "alexnet-r": 340_392,
}


def right(variant: Variant[Any], problem: Transfer, threads: int = 1) -> None:
    bind = variant.prepare(problem, Cpu(), Setting(threads))
    for seed in (1, 2):
        check(Cpu(), problem, variant, bind, seed)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
@pytest.mark.parametrize("variant", variants.VARIANTS, ids=lambda variant: variant.name)
def test_every_way_is_right(variant: Variant[Any], problem: Transfer) -> None:
    if why := variant.accepts(problem):
        assert problem.waits == "each" and "--waits once" in why and variants.PEER not in variant.roles
        return
    if variant.missing():
        pytest.skip(str(variant.missing()))
    right(variant, problem)


@pytest.mark.skipif(cores() < 2, reason="one core")
@pytest.mark.parametrize("problem", PROBLEMS[:4], ids=lambda problem: problem.name)
@pytest.mark.parametrize("past", [False, True])
def test_a_team_copies_the_whole(past: bool, problem: Transfer) -> None:
    row: Variant[Any] = variants.VARIANTS[past]
    right(row, problem, threads=2)


def test_what_runs_on_one_thread_says_so() -> None:
    for row in variants.VARIANTS:
        if row.name not in ("c", "c-stream", "torch"):
            with pytest.raises(Unavailable, match="--threads 1"):
                row.prepare(PROBLEMS[0], Cpu(), Setting(2))


def short(problem: Transfer, x: Any, y: Any) -> None:
    y[:, :-1] = x[:, :-1]


def rounded(problem: Transfer, x: Any, y: Any) -> None:
    y[:] = np.float32(np.float16(x))


@pytest.mark.parametrize(("call", "why"), [(short, "unwritten"), (rounded, "off")])
def test_a_wrong_copy_is_refused(call: Any, why: str) -> None:
    row: Variant[Any] = Variant(
        "wrong", "cpu", "mine", lambda problem, device, setting: lambda b: Launch(lambda: call(problem, *b))
    )
    with pytest.raises(WrongResult, match=why):
        right(row, PROBLEMS[1])


def children() -> set[str]:
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


@pytest.mark.parametrize("route", peers.ROUTES)
def test_the_other_process_ends_with_its_last_user(route: str) -> None:
    before = children()
    bind = peers.prepare(route, PROBLEMS[1], Cpu(), Setting())
    (born,) = children() - before
    assert Path(f"/proc/{born}").exists()
    del bind
    gc.collect()
    assert children() == before


def test_a_way_that_the_system_forbids_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_usable", lambda route: False)
    with pytest.raises(Unavailable, match="route vm"):
        peers.prepare("vm", PROBLEMS[0], Cpu(), Setting())


def test_gradients_have_the_sizes_of_the_texts() -> None:
    assert {name: gradient.nbytes for name, gradient in GRADIENTS.items()} == BYTES
    assert [len(GRADIENTS[name].layers) for name in ("fcn-s", "resnet-50", "resnet-56")] == [4, 107, 111]
    x = np.arange(LAYERS.count)
    assert [len(part) for part in copies.parts(LAYERS, x)] == [2432, 25632, 51264, 5770]


@pytest.mark.parametrize(("fields", "why"), [((3,), "take 4 or more"), ((6,), "a multiple of 4")])
def test_sizes_that_are_none_are_usage(fields: Any, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Transfer(*fields)


def contests(*words: str) -> list[Contest]:
    return list(planned(*_named(words)).contests)


def _named(words: tuple[str, ...]) -> tuple[Any, str, Any]:
    meant, options = request(transfer.BENCHMARK, "transfer", words)
    return meant, "transfer", options


def test_by_default_it_is_every_size_from_a_kibibyte_on() -> None:
    every = contests()
    assert every == contests("--curve")
    sizes = [x.cases[0].problem.size for x in every]  # type: ignore[attr-defined]
    assert sizes[0] == 1 << 10 and sizes[-1] >= 1 << 26
    assert sizes == [(1 << 10) << 2 * i for i in range(len(sizes))]


def test_each_question_compares_what_it_names() -> None:
    assert {x.differs for x in contests("--layers")} == {"buffers and waits"}
    peer = contests("--layers", "--variant", "pipe", "--buffers", "fcn-r")
    assert [[(c.problem.buffers, c.problem.waits) for c in x.cases] for x in peer] == [  # type: ignore[attr-defined]
        [("one", "once"), ("fcn-r", "once"), ("fcn-r", "each")]
    ]
    assert {case.variant for x in contests("--processes") for case in x.cases} == {"memcpy", *peers.ROUTES}
    assert {x.differs for x in contests("--first-touch")} == {"memory", "page"}
    assert len(contests("--gradients", "--size", "56823848")) == 1


def test_a_line_is_found_with_its_interval_and_what_it_leaves() -> None:
    exact = answers.fit({size: 1e-6 + size / 1e10 for size in (1 << 10, 1 << 14, 1 << 18, 1 << 22)})
    assert exact is not None
    assert exact.latency == pytest.approx((1e-6,) * 3, rel=1e-6) and exact.rate == pytest.approx((1e10,) * 3, rel=1e-6)
    bent = answers.fit({1 << 10: 1e-6, 1 << 14: 2e-6, 1 << 18: 2e-5, 1 << 22: 8e-4})
    assert bent is not None and bent.latency[1] < bent.latency[0] < bent.latency[2] and abs(bent.worst) > 0.1
    assert answers.fit({1: 1.0, 2: 2.0, 3: 3.0}) is None


def test_the_texts_figure_is_worked_out() -> None:
    told = answers.published()
    assert "7.1 ms at 8 GB/s" in told and "25.53 to 25.55 ms" in told and told.endswith("are 25.61 ms.")
