"""What a person named is planned, or refused in one line; `--workspace` and `--heap`."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from kernels import heap
from kernels.errors import UsageError
from kernels.workspace import enough, limit, typed
from micro.planning.axes import values
from micro.planning.benchmark import NothingWritten
from micro.planning.contest import Contest
from tests.conftest import Ran
from tests.micro import plans
from tests.micro.plans import BENCHMARKS

pytestmark = pytest.mark.usefixtures("four_cores")


def contests(line: str) -> tuple[Contest, ...]:
    return plans.contests(*line.split())


# Cold operands


@pytest.mark.parametrize("name", BENCHMARKS)
def test_where_all_operands_are_cold_each_problem_has_its_own(name: str) -> None:
    found = BENCHMARKS[name]
    for flag, question in ((found.default, found.questions.get(found.default)), *found.questions.items()):
        asked = f"--{flag.replace('_', '-')}" if flag else ""
        try:
            found_here = contests(f"{name} {asked} {'--all' if question and question.all else ''} --cold all")
        except NothingWritten:  # a GPU's question
            continue
        for contest in found_here:
            for case in contest.cases:
                own = tuple(x.name for x in case.problem.operands())
                warm = contest.name.startswith("cold/") and not case.setting.cold  # what cold ones are set against
                assert warm or case.setting.cold == own, case.name


def test_along_an_axis_names_tell_the_operands_of_their_first_problem() -> None:
    first, second = contests("launch --chain 1 --vary chain --variant c --cold all")
    assert first.name.endswith("/vary:chain/variant:c/threads:1/cold:a+b+c")
    assert second.name.endswith("/vary:chain/variant:c/threads:1/cold:x")
    (contest,) = contests("launch --kernel empty --threads 1,2 --vary threads --variant c --cold all")
    assert contest.name.endswith("/vary:threads/variant:c/threads:1/cold:x")


def test_operands_of_all_directions_that_are_asked_can_be_cold(tmp_path: Path) -> None:
    sizes = "--n 2 --c 4 --h 8 --w 8 --k 4"
    forward, dgrad = contests(f"conv {sizes} --direction forward,dgrad --cold w,dx --variant torch")
    assert dgrad.cases[0].setting.cold == ("w", "dx") and "to make cold" not in (dgrad.cases[0].skip or "")
    assert forward.cases[0].skip == "no operand dx to make cold: choose from x, w, y"
    with pytest.raises(UsageError, match="--cold dw: choose from dy, w, dx, or all"):
        contests(f"conv {sizes} --direction dgrad --cold dw")
    written = {"source": "here", "problems": [{"n": 2, "c": 4, "h": 8, "w": 8, "k": 4, "direction": "wgrad"}]}
    path = tmp_path / "problems.json"
    path.write_text(json.dumps(written), "utf-8")
    (of_file,) = contests(f"conv --shapes {path} --cold dw --variant torch")
    assert of_file.cases[0].setting.cold == ("dw",)


# What modifies a question

ON_A_GPU = dict.fromkeys(("engines", "gaps"), " --device fake:cuda")  # questions that nothing else answers
ALL = {(name, flag): question for name, one in BENCHMARKS.items() for flag, question in one.questions.items()}


@pytest.mark.parametrize(("name", "flag"), ALL)
@pytest.mark.parametrize("modifier", ["full", "all"])
def test_a_modifier_changes_what_its_help_says_and_is_refused_elsewhere(name: str, flag: str, modifier: str) -> None:
    line = f"{name} --{flag.replace('_', '-')}{ON_A_GPU.get(flag, '')}"
    if vars(ALL[name, flag])[modifier]:
        assert contests(f"{line} --{modifier}") != contests(line)
    else:
        with pytest.raises(UsageError, match=rf"^(--{modifier}: no effect on|unrecognized arguments)"):
            contests(f"{line} --{modifier}")


# Data


def test_named_data_are_taken() -> None:
    for words, data in (("", "uniform"), ("--data uniform", "uniform"), ("--data zeros", "zeros")):
        for line in (f"gather --step {words}", f"optimizer --rules {words}"):
            assert {case.setting.data for contest in contests(line) for case in contest.cases} == {data}


# Files of problems


def test_problems_that_are_alike_are_one(tmp_path: Path) -> None:
    """By a varied axis, or because they stand twice in a file."""
    file, same = tmp_path / "two.json", {"m": 8, "n": 8, "k": 8}
    file.write_text(json.dumps({"problems": [same | {"m": m} for m in (1, 2)]}))
    (contest,) = contests(f"gemm --shapes {file} --vary m --m 8,16 --variant openblas")
    assert [case.problem.m for case in contest.cases] == [8, 16]  # type: ignore[attr-defined]
    file.write_text(json.dumps({"problems": [same, {**same, "k": 9}, {**same, "alpha": 1}]}))
    found = contests(f"gemm --shapes {file} --variant openblas")
    assert [contest.name for contest in found] == ["gemm/m:8/n:8/k:8", "gemm/m:8/n:8/k:9"]


# Questions


@pytest.mark.parametrize(
    "line",
    [
        "gemm --transpose --m 64,128 --n 32 --k 16",
        "gemm --crossover --m 5,6 --variant openblas",
        "gemm --net fcn-r --m 7",
        "launch --chain 4 --kernel empty",
        "gather --lookup --rows 16,32 --width 8 --batch 4",
        "update --fused --m 8,16 --n 16 --k 4",
        "memory --page 4096",
    ],
)
def test_a_question_has_cases_of_what_it_was_asked(line: str) -> None:
    found = BENCHMARKS[line.split()[0]]
    axes = {field.name for field in fields(found.problem)}
    words = line.split()
    named = {word[2:]: text for word, text in pairwise(words) if word[2:] in axes}
    problems = [case.problem for contest in contests(line) for case in contest.cases]
    for axis, text in named.items():
        assert set(text.split(",")) <= {str(vars(x)[axis]) for x in problems if x.op == found.problem.op}


SIZE = ("--m", "8", "--n", "8", "--k", "8")
# A product that says of itself that it holds 3 MiB.
HOLDS = """
from functools import partial

import numpy as np

from kernels.launch import Launch
from kernels.variant import Variant


def prepare(problem, device, setting):
    return lambda x: Launch(partial(np.matmul, x[0], x[1], out=x[2]), workspace=3 << 20)


ROW = Variant("holds.py:ROW", "cpu", "mine", prepare, python=True)
"""


def limits(text: str) -> tuple[int | None, ...]:
    return values(text, limit, "--workspace")


def test_limits() -> None:
    assert limits("0,512KiB,8MiB,1GiB,4096,7B,unlimited") == (0, 512 << 10, 8 << 20, 1 << 30, 4096, 7, None)
    for text in ("", "8MB", "8 MiB", "-1", "1.5MiB", "8MiB,", "none", "1e6"):
        with pytest.raises(
            UsageError, match=r"^--workspace: .*is neither a size such as 512KiB or 8MiB nor unlimited$"
        ):
            limits(text)
    for text in ("8MiB,8192KiB", "0,0B", "unlimited,unlimited"):
        with pytest.raises(UsageError, match=r"a value is repeated$"):
            limits(text)


def test_a_limit_is_typed_in_its_largest_exact_unit_and_a_round_one_is_enough() -> None:
    words = ["0B", "7B", "1KiB", "1MiB", "1536MiB", "unlimited"]
    assert [typed(x) for x in (0, 7, 1024, 1 << 20, 3 << 29, None)] == words
    rng = random.Random(1)
    for _ in range(200):
        nbytes = int(10 ** rng.uniform(0, 11))
        assert limits(typed(nbytes)) == (nbytes,)
        (round_number,) = limits(enough(nbytes))
        assert round_number is not None and nbytes <= round_number <= 1.13 * nbytes + 1


def test_a_kernel_that_holds_more_says_so_and_has_no_time(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    words = ("--variant", f"{tmp_path}/holds.py:ROW", "--workspace", "2MiB,4MiB", "--vary", "workspace")
    ran = gemm(*SIZE, *words, "--budget", "0.2s", "--json", "-")
    results = {x["workspace_limit"]: x for x in json.loads(ran.out)["results"] if x["role"] == "measured"}
    assert ran.code == 0 and results[2 << 20]["status"] == "skipped"
    assert results[2 << 20]["reason"] == "needs 3 MiB of workspace: --workspace 3MiB or more"
    assert results[4 << 20]["status"] in ("ok", "contended") and results[4 << 20]["workspace"] == 3 << 20


# The allocator's policy


THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
# A product whose answer is right only where large blocks are kept: it frees one and looks whether the next is it.
KEPT = """
import ctypes

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]


def faults(size):
    import resource

    block = libc.malloc(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    ctypes.memset(block, 1, size)
    libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def product(problem, a, b, c):
    faults(64 << 20)
    if faults(64 << 20) < 100:
        c[:] = a @ b
"""


@pytest.mark.slow
@pytest.mark.skipif("[always]" in THP.read_text() if THP.exists() else False, reason="few large pages for all")
@pytest.mark.skipif(not heap._glibc(), reason="policies are glibc's")
def test_a_heap_that_keeps_does(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(KEPT)
    words = ("--heap", "default,keep", "--vary", "heap", "--variant", f"{tmp_path}/kept.py:product")
    told = json.loads(gemm(*SIZE, *words, "--budget", "1s", "--json", "-").out)
    status = {x["heap"]: x["status"] for x in told["results"] if x["role"] == "measured"}
    assert status["default"] == "wrong" and status["keep"] in ("ok", "contended")
    assert [x["differs"] for x in told["comparisons"]] == ["heap"]


def test_another_c_library_has_no_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert heap.variables("default") == {}
    with pytest.raises(UsageError, match="glibc's allocator; this system supports only --heap default"):
        heap.variables("keep")


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_MMAP_MAX_", "0"), ("LD_PRELOAD", "0"), ("LD_PRELOAD", "/build/mkl_intel-1.so:/usr/lib/libjemalloc.so.2")],
)
def test_a_default_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/state/build/mkl_intel-1234.so")  # a shim of products leaves the heap as it is
    assert heap.variables("keep")
    monkeypatch.setenv(name, value)
    assert heap.variables("default") == {}
    with pytest.raises(UsageError, match=f"the environment already sets {name}"):
        heap.variables("keep")
