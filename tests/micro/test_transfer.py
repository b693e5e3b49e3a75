"""Copies and rows of tables: every way is right, wrong ones are refused, what questions compare and say."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices.cpu import Cpu, cores
from kernels.errors import Unavailable, UsageError, WrongResult
from kernels.launch import Launch
from kernels.ops.gather import Gather
from kernels.ops.gather import variants as rows
from kernels.ops.transfer import Transfer, variants
from kernels.ops.transfer.problem import GRADIENTS
from kernels.setting import Setting
from kernels.variant import Variant
from micro.planning.benchmark import NothingWritten
from micro.planning.contest import Contest, parse
from micro.worker.check import check
from tests.micro.plans import contests

LAYERS = Transfer(GRADIENTS["alexnet-r"].nbytes, "alexnet-r")
# The last ones: of several chunks of a ring, and no whole number of them.
PROBLEMS = (
    Transfer(4),
    Transfer(4 * 1003),
    Transfer(1 << 20),
    LAYERS,
    Transfer(0, "alexnet-r", "each"),
    Transfer(4000, "hundred", "each"),
    Transfer((3 << 20) + 4, back="along"),
)
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
        option = "--waits once" if problem.waits == "each" else "--back after"
        assert option in why and (variants.PEER not in variant.roles or option == "--back after")
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


@pytest.mark.parametrize(("call", "why"), [(short, "unwritten"), (rounded, "differ from the exact result")])
def test_a_wrong_copy_is_refused(call: Any, why: str) -> None:
    row: Variant[Any] = Variant(
        "wrong", "cpu", "mine", lambda problem, device, setting: lambda b: Launch(lambda: call(problem, *b))
    )
    with pytest.raises(WrongResult, match=why):
        right(row, PROBLEMS[1])


def children() -> set[str]:
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


@pytest.mark.parametrize("route", variants.ROUTES)
def test_the_other_process_ends_with_its_last_user(route: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = children()
    bind = variants.to_peer(route, PROBLEMS[1], Cpu(), Setting())
    (born,) = children() - before
    assert Path(f"/proc/{born}").exists()
    del bind
    gc.collect()
    assert children() == before
    monkeypatch.setattr(variants, "_usable", lambda route: False)
    with pytest.raises(Unavailable, match=f"route {route}"):
        variants.to_peer(route, PROBLEMS[0], Cpu(), Setting())


def test_gradients_have_the_sizes_of_the_texts() -> None:
    assert {name: gradient.nbytes for name, gradient in GRADIENTS.items()} == BYTES
    assert [len(GRADIENTS[name].layers) for name in ("fcn-s", "resnet-50", "resnet-56")] == [4, 107, 111]
    x = np.arange(LAYERS.count)
    assert [len(part) for part in variants.parts(LAYERS, x)] == [2432, 25632, 51264, 5770]


def test_sizes_that_are_none_are_usage() -> None:
    fcn_r = "the gradient of --buffers fcn-r has 56823848 bytes; leave one of the two out"
    refused: dict[tuple[Any, ...], str] = {
        (3,): "--size 3: must be 4 or more",
        (-4,): "--size -4: must be 4 or more",
        (6,): "--size 6: must be a multiple of 4",
        (4, "hundred"): "--size 4: must be a multiple of 400",
        (4096, "fcn-r"): f"--size 4096: {fcn_r}",
        (0, "nobody"): "--buffers nobody: choose from one, hundred, fcn-s",
    }
    for fields, why in refused.items():
        with pytest.raises(UsageError, match=f"^{why}"):
            Transfer(*fields)


def test_a_size_is_the_gradients_where_none_is_named_and_stands_in_the_name() -> None:
    assert Transfer(0).size == 1 << 20 and Transfer(0, "hundred").size == (1 << 20) // 400 * 400
    own = Transfer(0, "fcn-r")
    assert own.name == "transfer/size:56823848/buffers:fcn-r"
    assert parse(f"{own.name}/variant:c/threads:1").problem == own


def test_by_default_it_is_every_size_from_a_kibibyte_on() -> None:
    every = contests("transfer")
    assert every == contests("transfer", "--curve")
    sizes = [x.cases[0].problem.size for x in every]  # type: ignore[attr-defined]
    assert sizes[0] == 1 << 10 and sizes[-1] >= 1 << 26
    below = [size for size in sizes if size < 1 << 30]
    assert below == [(1 << 10) << i for i in range(len(below))] and set(sizes) - set(below) <= {1 << 30}


def test_each_question_compares_what_it_names() -> None:
    assert {x.differs for x in contests("transfer", "--layers")} == {"buffers and waits"}
    peer = contests("transfer", "--layers", "--variant", "pipe", "--buffers", "fcn-r")
    assert [[(c.problem.buffers, c.problem.waits) for c in x.cases] for x in peer] == [  # type: ignore[attr-defined]
        [("one", "once"), ("fcn-r", "once"), ("fcn-r", "each")]
    ]
    assert {case.variant for x in contests("transfer", "--processes") for case in x.cases} == {
        "memcpy",
        *variants.ROUTES,
    }
    assert len(contests("transfer", "--gradients", "--size", "56823848")) == 1


def named(every: list[Contest]) -> list[tuple[str, list[str], list[tuple[str, str]]]]:
    """Of each contest its first word, its cases, and its pairs, without the size."""
    told = []
    for x in every:
        short = [f"{case.problem.op} {case.variant} {case.setting.threads}" for case in x.cases]
        told.append((x.name.partition("/")[0], short, [(short[i], short[j]) for i, j in x.comparisons]))
    return told


def test_a_short_copy_is_set_beside_no_process_that_would_take_a_thousand_times_as_long() -> None:
    (_, cases, _), (_, more, pairs) = named(contests("transfer", "--processes", "--size", "4096,1048576"))
    assert "transfer memcpy 1" not in cases and more[0] == "transfer memcpy 1"
    assert ("transfer shared 1", "transfer vm 1") in pairs


def test_a_team_is_set_beside_each_way_alone_and_ours_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.devices.cpu.cores", lambda: 4)
    ((_, cases, pairs),) = named(contests("transfer", "--team", "--size", "1048576"))
    assert cases[:3] == ["transfer c 1", "transfer c-stream 1", "transfer torch 1"] and len(cases) == 8
    assert pairs[:3] == [(f"transfer {x} 1", f"transfer {x} 4") for x in ("c", "c-stream", "torch")]
    rivals = ("memcpy 1", "numpy 1", "torch 4")
    assert pairs[3:] == [(f"transfer {a}", f"transfer {b} 4") for b in ("c", "c-stream") for a in rivals]
    ((_, cases, _),) = named(contests("transfer", "--team", "--size", "1048576", "--threads", "2,3", "--variant", "c"))
    assert cases == ["transfer c 1", "transfer c 2", "transfer c 3"]


def test_where_fewer_cases_have_room_single_threads_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.devices.cpu.cores", lambda: 2)
    monkeypatch.setattr("micro.contests.transfer._free", lambda asked: 100 << 20)
    assert [len(cases) for _, cases, _ in named(contests("transfer", "--team"))] == [5]
    monkeypatch.setattr("kernels.devices.cpu.cores", lambda: 1)
    with pytest.raises(UsageError, match=r"^--team: needs several cores"):
        contests("transfer", "--team")


def test_a_copy_beside_products_is_a_gpus_question() -> None:
    """The copy, the products, both: where there is no device with memory of its own there is nothing to ask."""
    (contest,) = contests("transfer", "--beside", "--size", "65536", "--device", "fake:cuda")
    assert [case.variant for case in contest.cases] == ["h2d-pinned", "products", "h2d-beside-products"]
    assert not [case.skip for case in contest.cases if case.skip]


def test_memory_that_is_not_locked_is_set_beside_memory_that_is_each_way() -> None:
    """By the caller's time, on a GPU alone."""
    every = contests("transfer", "--pageable", "--size", "65536", "--device", "fake:cuda")
    assert [[case.variant for case in x.cases] for x in every] == [
        ["h2d-pinned", "h2d-pageable"],
        ["d2h-pinned", "d2h-pageable"],
    ]
    assert all(case.problem.on_host and case.skip is None for x in every for case in x.cases)
    with pytest.raises(NothingWritten):
        contests("transfer", "--pageable")
    (one,) = contests(
        "transfer", "--pageable", "--size", "65536", "--device", "fake:cuda", "--variant", "h2d-combined,h2d-pageable"
    )
    assert [case.variant for case in one.cases] == ["h2d-combined", "h2d-pageable"]


SCATTERS = ("c-scatter", "numpy-add-at", "torch-index-add", "torch-embedding", "one-hot-scatter")
LOOKUP = Gather(37, 5, 11)
STEPS = tuple(Gather(37, 5, 11, "step", rule) for rule in ("sgd", "adagrad"))
TABLES = (LOOKUP, replace(LOOKUP, order="block"), Gather(1, 1, 1), Gather(64, 3, 64), *STEPS)


class Borrowed(Cpu):
    """A CPU that lends NumPy for CuPy: the calls of its rows are the same."""

    cp = np


def gathers(variant: Variant[Any], problem: Gather, device: Cpu) -> None:
    bind = variant.prepare(problem, device, Setting())
    for seed in (1, 2):
        check(device, problem, variant, bind, seed)


@pytest.mark.parametrize("problem", TABLES, ids=lambda problem: problem.name)
@pytest.mark.parametrize("variant", rows.VARIANTS, ids=lambda variant: variant.name)
def test_every_kernel_is_right(variant: Variant[Any], problem: Gather) -> None:
    on_gpu = variant.device == "cuda"
    if variant.accepts(problem):
        stepped = variant.name.rpartition("-")[2] in ("rows", "dense")
        assert problem.does != ("scatter" if variant.name in SCATTERS else "step" if stepped else "lookup")
        return
    if on_gpu and variant.provider != "cupy":
        pytest.skip("PyTorch on a GPU has no stand-in here")
    if not on_gpu and variant.missing():
        pytest.skip(str(variant.missing()))
    gathers(variant, problem, Borrowed() if on_gpu else Cpu())


def kernel(call: Callable[..., object]) -> Variant[Any]:
    """`call(problem, *operands)`."""
    return Variant("wrong", "cpu", "mine", lambda problem, device, setting: lambda b: Launch(lambda: call(problem, *b)))


def next_rows(problem: Gather, ids: Any, y: Any, table: Any) -> None:
    y[:] = table[(ids + 1) % problem.rows]


def sorted_table(problem: Gather, ids: Any, y: Any, table: Any) -> None:
    y[:] = table[ids]
    table.sort(axis=0)


def all_rows(problem: Gather, ids: Any, g: Any, w: Any) -> None:
    w -= -0.125 * g[0]


def table_alone(problem: Gather, ids: Any, g: Any, w: Any, v: Any) -> None:
    w[ids] -= -0.125 * g / (np.sqrt(v[ids] + g * g) + np.float32(1e-8))


def one_element_off(problem: Gather, ids: Any, g: Any, w: Any) -> None:
    w[ids] -= -0.125 * g
    w[ids[0], 0] += 1


@pytest.mark.parametrize(
    ("problem", "call", "why"),
    [
        (LOOKUP, next_rows, "^y: "),
        (LOOKUP, sorted_table, "^table: dense probe: "),  # few of its elements stay, and those are right
        (STEPS[0], all_rows, "differ from the exact result"),
        (STEPS[0], one_element_off, "^dense probe: 1 of 185 values have errors up to"),
        (STEPS[1], table_alone, "^v: writes nothing"),
    ],
)
def test_a_wrong_kernel_is_refused(problem: Gather, call: Callable[..., object], why: str) -> None:
    with pytest.raises(WrongResult, match=why):
        gathers(kernel(call), problem, Cpu())


def test_rows_are_different_ones_and_everyones() -> None:
    for problem in TABLES:
        ids = problem.ids()
        assert len(set(ids.tolist())) == problem.batch
        assert ids.min() >= 0
        assert ids.max() < problem.rows
        assert (ids == problem.ids()).all()
    block = replace(LOOKUP, order="block").ids()
    assert (np.diff(block) == 1).all()
    assert (np.diff(LOOKUP.ids()) != 1).any()
    with pytest.raises(UsageError, match="exceeds --rows 4"):
        Gather(4, 1, 5)
    assert "GiB" in str(find("gather", "one-hot").accepts(Gather(1 << 20, 1, 1 << 10)))


def test_the_work_is_what_is_executed() -> None:
    assert find("gather", "one-hot").executed(LOOKUP).flops == 2 * 11 * 37 * 5
    assert find("gather", "c").executed(LOOKUP).flops == 0
    rows, dense = (find("gather", f"c-{form}").executed(STEPS[0]) for form in ("rows", "dense"))
    assert rows.bytes == 8 * 11 + 12 * 11 * 5
    assert dense.bytes == 8 * 11 + 8 * 11 * 5 + (4 + 12) * 37 * 5
    assert dense.flops == pytest.approx(2 * 37 * 5)


def test_steps_are_of_uniform_data_and_on_a_gpu_its_own() -> None:
    assert {case.setting.data for x in contests("gather", "--step") for case in x.cases} == {"uniform"}
    on_gpu = contests("gather", "--step", "--device", "fake:cuda")
    assert [case.variant for case in on_gpu[0].cases] == ["cupy-rows", "cupy-dense"]
