"""What holds of every question's contests; plans of elementwise, update and optimizer."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.catalog import find
from kernels.errors import UsageError
from kernels.ops.activation import Activation
from kernels.ops.update.problem import Update
from kernels.setting import Setting
from micro import elementwise, optimizer, update
from micro.command.line import main
from micro.contests import elementwise as build
from micro.planning.benchmark import Benchmark, NothingWritten, Request, default_rows, outside_caches
from micro.planning.contest import Contest, parse
from micro.planning.options import request
from micro.planning.repeat import Repeat
from tests.conftest import Ran
from tests.micro.plans import BENCHMARKS, contests

QUESTIONS = [
    (name, f"--{flag.replace('_', '-')}")
    for name, benchmark in BENCHMARKS.items()
    for flag in benchmark.questions
    if flag not in ("engines", "gaps", "beside", "pageable", "exchange")  # of a GPU
]
MEANT = {  # fields that a word of a contest stands for, beside the field of its name
    "operation": {"rows", "cols"},
    "padding": {"pad", "pad_top", "pad_left", "pad_bottom", "pad_right"},
    "isa": {"threads", "steps", "chains", "processors"},
    "pools": {"threads"},
    "what ran before": {"after"},
    "strategy": {"trans"},
    "heap": {"memory"},
}


pytestmark = pytest.mark.usefixtures("four_cores")


@pytest.fixture(autouse=True)
def _four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micro.contests.cpu.cores", lambda: 4)


@pytest.mark.parametrize("device", ["cpu", pytest.param("fake:cuda", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("name", "question"), QUESTIONS)
def test_names_and_lines_lead_back_to_the_case(name: str, question: str, device: str) -> None:
    try:
        every = contests(name, question, "--device", device)
    except NothingWritten:
        return
    assert len({contest.name for contest in every}) == len(every) > 0
    kinds = {(x.name.partition("/")[0], case.problem.op): case for x in every for case in x.cases}
    for case in (case for contest in every for case in contest.cases):
        again = parse(case.name)
        assert (again.problem, again.variant, again.setting) == (case.problem, case.variant, case.setting)
    for case in kinds.values():
        line = Repeat(name, BENCHMARKS[name].swept).line(case)
        if "micro.ceiling" not in line and not line.endswith("--clock") and "--only" not in line:
            (again,) = [x for contest in contests(name, *shlex.split(line)[3:]) for x in contest.cases]
            assert (again.problem, again.variant, again.setting) == (case.problem, case.variant, case.setting)


@pytest.mark.parametrize(("name", "question"), QUESTIONS)
def test_cases_differ_in_what_the_contest_names(name: str, question: str) -> None:
    for contest in contests(name, question):
        if not contest.differs.startswith("work: differs"):
            words = contest.differs.split(" and ")
            assert differing(contest) <= set(words).union(*(MEANT.get(word, ()) for word in words)), contest.name


def differing(contest: Contest) -> set[str]:
    """Return the fields of problem and setting in which a contest's cases differ."""
    rows: list[dict[str, Any]] = [vars(case.problem) | case.setting.values for case in contest.cases]
    return {field for row in rows for field in row if row[field] != rows[0].get(field)}


@pytest.mark.parametrize(
    ("name", "line", "default"),
    [
        ("launch", "", True),
        ("launch", "--chain 2 --vary chain", False),
        ("launch", "--variant c", False),
        ("memory", "--budget 20s --json -", True),
        ("memory", "--cold-operands", False),
        ("memory", "--memory fresh", False),
        ("memory", "--kind=copy --size 4096", False),
        ("update", "--k 8", True),
        ("update", "--batch --k 8", False),
        ("update", "--together --budget 2s", False),
        ("optimizer", "", True),
        ("elementwise", "--budget 2s", True),
        ("elementwise", "--count 8", False),
        ("elementwise", "--batch 8", False),
    ],
)
def test_a_plain_line_asks_the_default_question(name: str, line: str, default: bool) -> None:
    assert (BENCHMARKS[name].default in request(BENCHMARKS[name], name, line.split())[1].flags) == default


def elementwise_asked(*flags: str, device: str = "cpu", variant: tuple[str, ...] = (), **axes: Any) -> Request:
    made = elementwise.BENCHMARK
    given = frozenset((*axes, *(("variant",) if variant else ())))
    default = default_rows(made, device)
    return Request(
        "activation", made.sweep | axes, variant or tuple(default), (Setting(device=device),), frozenset(flags), given
    )


def built(question: str, *flags: str, **how: Any) -> list[Contest]:
    return elementwise.QUESTIONS[question].build(elementwise_asked(*flags, **how))


def test_all_here_are_accepted() -> None:
    """What is skipped is so because it is not installed, never because it was asked for what it cannot do."""
    for question in elementwise.QUESTIONS:
        for contest in built(question, "all"):
            for case in contest.cases:
                assert find(case.problem.op, case.variant).accepts(case.problem) is None, case.name


@pytest.mark.parametrize("question", ["activations", "softmax", "inplace", "exp", "overview"])
def test_on_a_gpu_there_are_contests_of_its_kernels(question: str) -> None:
    for contest in built(question, device="fake:cuda"):
        for case in contest.cases:
            row = find(case.problem.op, case.variant)
            assert row.device == "cuda" and row.accepts(case.problem) is None


def test_count_shrinks_every_problem() -> None:
    for question in elementwise.QUESTIONS:
        found = built(question, count=(512,))
        assert len({contest.name for contest in found}) == len(found)
        for contest in found:
            assert all(case.problem.footprint <= 32 * 1024 for case in contest.cases)
    assert not any("count:512" in contest.name for contest in built("activations"))


@pytest.mark.parametrize("question", ["activations", "softmax", "inplace"])
def test_on_a_gpu_one_size_comes_from_memory_and_says_so(question: str) -> None:
    """Every operand of such a contest's cases together, also in place; the others' lie in a second-level cache."""
    found = built(question, device="fake:cuda")
    far = [x for x in found if min(case.problem.footprint for case in x.cases) >= outside_caches("fake:cuda")]
    assert far and {x.name for x in far} == {x.name for x in found if "in GPU memory" in x.question}
    near = [case.problem.footprint for x in found if x not in far for case in x.cases]
    assert max(near) < outside_caches("fake:cuda") // 4
    assert outside_caches("fake:cuda") >= 4 * 60e6 and "256 MiB" in far[0].question
    assert not any("GPU" in x.question for x in built(question))


def test_the_largest_softmax_only_with_all() -> None:
    def shapes(*flags: str) -> set[tuple[int, int]]:
        cases = [case for contest in built("softmax", *flags) for case in contest.cases]
        return {(case.problem.batch, case.problem.classes) for case in cases}  # type: ignore[attr-defined]

    assert shapes("all") - shapes() == {build.LARGEST}
    assert set(build.NETWORKS) == shapes()


@pytest.mark.parametrize(
    ("line", "op"),
    [
        ("", "activation"),
        ("--count 8", "activation"),
        ("--batch 8", "softmax"),
        ("--classes=8 --labels one-hot", "softmax"),
        ("--rows 3 --cols 4", "biasact"),
        ("--units 3", "dropout"),
        ("--images 3 --size 9", "pooling"),
        ("--images 3 --maps 2", "norm"),
        ("--values 3 --convert clear", "cast"),
        ("--softmax --count 512", "activation"),
    ],
)
def test_axes_tell_which_operation_is_meant(line: str, op: str) -> None:
    assert request(elementwise.BENCHMARK, "elementwise", line.split())[0].problem.op == op


def test_an_operation_by_its_axes(command: Callable[..., Ran]) -> None:
    words = "--device fake -q --batch 3 --classes 7 --variant c,numpy --budget 1s"
    ran = command("elementwise", *words.split())
    assert ran.code == 0 and "softmax" in ran.out
    with pytest.raises(UsageError, match="--variant libm"):
        find("softmax", "libm")


def test_the_sweep_is_of_the_activations() -> None:
    assert elementwise.BENCHMARK.problem is Activation
    for made in elementwise.BENCHMARKS:
        for kernels in ("cpu", "cuda"):
            for name in default_rows(made, kernels):
                assert find(made.problem.op, name).device == kernels


CPU, GPU = Setting(), Setting(device="cuda:0")


def asked(
    *flags: str, made: Benchmark = update.BENCHMARK, device: Setting = CPU, rows: tuple[str, ...] = (), **axes: Any
) -> Request:
    named = frozenset((*axes, *(("variant",) if rows else ())))
    return Request(made.problem.op, made.sweep | axes, rows, (device,), frozenset(flags), named)


def asked_optimizer(device: Setting = CPU, **axes: Any) -> Request:
    return asked(made=optimizer.BENCHMARK, device=replace(device, data="uniform"), **axes)


# The plan


def test_the_layers_of_the_question() -> None:
    layers = {contest.name.split("/")[1] for contest in update.fused(asked()) if contest.name.startswith("fused/")}
    assert layers == {"update"}
    shapes = [c.cases[0].problem for c in update.fused(asked("all")) if c.name.startswith("fused/")]
    found = {(x.m, x.n, x.k) for x in shapes}  # type: ignore[attr-defined]
    assert found >= {(26752, 2048, 64), (2048, 2048, 64), (1024, 10, 1024), (9216, 4096, 16), (4096, 1000, 16)}
    assert len(found) == 2 + 8 + 3 + 2
    few = [c.cases[0].problem for c in update.fused(asked()) if c.name.startswith("fused/") and "openblas" in c.name]
    assert len(update.forms(asked(), Update(64, 10, 32), "openblas").cases) == 6, "as small as a tile"
    assert {(2048, 2048, k) for k in (16, 64, 512)} < {(x.m, x.n, x.k) for x in few}  # type: ignore[attr-defined]


def test_gains_are_compared_at_rates_that_make_their_steps_equal() -> None:
    for contest in (update.gain(asked(), Update(8, 8, 8), "openblas"), optimizer.gain(asked_optimizer(), 1, 8, "c")):
        plain, unit = (case.problem for case in contest.cases)
        assert (plain.rule, unit.rule, contest.differs) == ("momentum", "unit", "work: differs (rule)")  # type: ignore[attr-defined]
        assert unit.lr * (1 - unit.mu) == pytest.approx(plain.lr)  # type: ignore[attr-defined]
        assert unit.flops > plain.flops, "its gradient is scaled"


def test_sizes_and_libraries_that_are_named_are_kept_to() -> None:
    found = update.fused(asked(rows=("separate:mkl", "fused:mkl"), m=(8,), n=(16,), k=(4,)))
    assert {c.name for c in found if c.name.startswith("fused/")} == {"fused/update/m:8/n:16/k:4/mkl"}
    batches = [c.cases[0].problem.k for c in update.batch(asked(k=(3, 9), rows=("fused:mkl",)))]  # type: ignore[attr-defined]
    assert batches == [3, 9]
    found = optimizer.together(asked_optimizer(tensors=(2, 4), size=(8,), rule=("adam",)))
    assert [c.name for c in found] == [f"tensors/optimizer/rule:adam/tensors:{t}/size:8" for t in (2, 4)]


def test_on_a_gpu_steps_come_from_its_memory_too() -> None:
    """Of 1 M parameters, and of most layers, all lies in its second-level cache."""
    cache = 60e6
    found = optimizer.rules(asked_optimizer(device=GPU))
    far = [x for x in found if min(case.problem.footprint for case in x.cases) >= 4 * cache]
    assert {x.name.partition("/")[0] for x in far} == {"traffic", "ways"}
    assert ["memory" in x.question for x in far] == [x.name.startswith("traffic") for x in far]
    assert all(case.problem.footprint < cache for x in found if x not in far for case in x.cases)
    named = optimizer.rules(asked_optimizer(device=GPU, size=(64,)))
    assert all(case.problem.size == 64 for x in named for case in x.cases)  # type: ignore[attr-defined]
    layers = [case.problem for x in update.fused(asked(device=GPU)) for case in x.cases]
    assert max(4 * x.m * x.n for x in layers) > 2 * cache  # type: ignore[attr-defined]
    layers = [case.problem for x in update.fused(asked()) for case in x.cases]
    assert max(4 * x.m * x.n for x in layers) < cache  # type: ignore[attr-defined]


# The commands on the fake device


def test_squares_are_refused_on_normal_data(
    capsys: pytest.CaptureFixture[str], own_state: Path, in_process: Callable[..., Ran]
) -> None:
    argv = ["--rule", "adam", "--size", "64", "--variant", "c", "--data", "normal", "--until", "build", "-v"]
    ran = in_process(capsys, main, optimizer.BENCHMARK, "optimizer", argv)
    assert "adam needs nonnegative second moments: --data uniform" in " ".join(ran.out.split())
