"""Questions of `update` and `optimizer`: their plans, their names, the commands on the fake device."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.ops.optimizer.problem import NAMES, Optimizer
from kernels.ops.update.problem import Update
from kernels.setting import Setting
from micro import optimizer, update
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Request
from micro.planning.contest import Contest, parse
from micro.planning.options import request
from micro.planning.repeat import Repeat
from micro.planning.request import planned
from tests.conftest import Ran

CPU, GPU = Setting(), Setting(device="cuda:0")


def asked(
    *flags: str, given: tuple[str, ...] = (), device: Setting = CPU, rows: tuple[str, ...] = (), **axes: Any
) -> Request:
    sweep = update.BENCHMARK.sweep | axes
    named = frozenset((*given, *axes, *(("variant",) if rows else ())))
    return Request("update", sweep, rows, (device,), frozenset(flags), named)


def asked_optimizer(*flags: str, device: Setting = CPU, rows: tuple[str, ...] = (), **axes: Any) -> Request:
    sweep = optimizer.BENCHMARK.sweep | axes
    named = frozenset((*axes, *(("variant",) if rows else ())))
    return Request("optimizer", sweep, rows, (replace(device, data="uniform"),), frozenset(flags), named)


def every_plan() -> list[tuple[str, Contest]]:
    found = []
    for device in (CPU, GPU):
        for flags in ((), ("all",)):
            found += [
                ("update", x) for build in (update.fused, update.batch) for x in build(asked(*flags, device=device))
            ]
            found += [
                ("optimizer", x)
                for build in (optimizer.rules, optimizer.together)
                for x in build(asked_optimizer(*flags, device=device))
            ]
    return found


@pytest.fixture
def told(
    capsys: pytest.CaptureFixture[str], own_state: Path, light_fake: None, in_process: Callable[..., Ran]
) -> Callable[..., Ran]:
    """`told("--m", "8")`: the command `python -m micro.update --m 8`, in this process."""
    return lambda *argv: in_process(capsys, main, update.BENCHMARK, "update", argv)


# The plan


def test_the_plain_command_is_a_question() -> None:
    for argv in ([], ["--k", "8"]):
        assert "fused" in request(update.BENCHMARK, "update", argv)[1].flags
        assert "fused" not in request(update.BENCHMARK, "update", ["--batch", *argv])[1].flags
    assert "rules" in request(optimizer.BENCHMARK, "optimizer", [])[1].flags


@pytest.mark.parametrize("argv", [["--variant", "c"], ["--vary", "k"], ["--why"], ["--net", "fcn-s"]])
def test_another_question_is_left_alone(argv: list[str]) -> None:
    assert "fused" not in request(update.BENCHMARK, "update", argv)[1].flags
    assert "rules" not in request(optimizer.BENCHMARK, "optimizer", argv)[1].flags


def test_data_that_a_person_named_is_left_alone() -> None:
    assert request(optimizer.BENCHMARK, "optimizer", ["--rules"])[1].settings["data"] == "uniform"
    assert request(optimizer.BENCHMARK, "optimizer", ["--rules", "--data", "normal"])[1].settings["data"] == "normal"


def test_a_layer_has_its_forms_and_their_parts() -> None:
    contest = update.forms(asked(), Update(512, 768, 32), "openblas")
    rows = [(case.variant, case.problem.part, case.problem.m) for case in contest.cases]  # type: ignore[attr-defined]
    assert rows == [
        ("fused:openblas", "step", 512),
        ("separate:openblas", "step", 512),
        ("gradient:openblas", "wgrad", 512),
        ("c", "update", 512),
        ("c", "clear", 512),
        ("c", "scale", 512),
        ("gradient:openblas*7", "wgrad", 256),
        ("c*7", "scale", 256),
    ]
    assert contest.comparisons == ((0, 1),)
    assert contest.differs.startswith("work: differs")


def test_a_layer_as_small_as_a_tile_is_its_own() -> None:
    assert len(update.forms(asked(), Update(64, 10, 32), "openblas").cases) == 6


def test_the_layers_of_the_question() -> None:
    layers = {contest.name.split("/")[1] for contest in update.fused(asked()) if contest.name.startswith("fused/")}
    assert layers == {"update"}
    shapes = [c.cases[0].problem for c in update.fused(asked("all")) if c.name.startswith("fused/")]
    found = {(x.m, x.n, x.k) for x in shapes}  # type: ignore[attr-defined]
    assert found >= {(26752, 2048, 64), (2048, 2048, 64), (1024, 10, 1024), (9216, 4096, 16), (4096, 1000, 16)}
    assert len(found) == 2 + 8 + 3 + 2
    few = [c.cases[0].problem for c in update.fused(asked()) if c.name.startswith("fused/") and "openblas" in c.name]
    assert {(2048, 2048, k) for k in (16, 64, 512)} < {(x.m, x.n, x.k) for x in few}  # type: ignore[attr-defined]


def test_rules_are_compared_with_their_own_kind() -> None:
    contest = update.rules(asked(), Update(8, 8, 8), "openblas")
    pairs = [(contest.cases[a], contest.cases[b]) for a, b in contest.comparisons]
    for first, second in pairs:
        rule = second.problem.rule  # type: ignore[attr-defined]
        assert second.variant == "separate:openblas" and second.skip is None
        if first.variant == "fused:openblas":
            assert first.problem.rule == rule and rule in update.FUSABLE  # type: ignore[attr-defined]
        else:
            assert first.problem.rule == "sgd"  # type: ignore[attr-defined]
    assert len(pairs) == len(update.SEPARATE) + len(update.FUSABLE)


def test_gains_are_compared_at_rates_that_make_their_steps_equal() -> None:
    for contest in (update.gain(asked(), Update(8, 8, 8), "openblas"), optimizer.gain(asked_optimizer(), 1, 8, "c")):
        plain, unit = (case.problem for case in contest.cases)
        assert (plain.rule, unit.rule, contest.differs) == ("momentum", "unit", "work: differs (rule)")  # type: ignore[attr-defined]
        assert unit.lr * (1 - unit.mu) == pytest.approx(plain.lr)  # type: ignore[attr-defined]
        assert unit.flops > plain.flops, "its gradient is scaled"


def test_only_the_one_thing_differs() -> None:
    for _, contest in every_plan():
        problems = {case.problem for case in contest.cases}
        if contest.differs == "variant":
            assert len(problems) == 1
        assert len({(case.setting.threads, case.setting.data, case.setting.device) for case in contest.cases}) == 1


def test_names_and_commands_lead_back_to_the_case() -> None:
    modules = {"update": update.BENCHMARK, "optimizer": optimizer.BENCHMARK}
    for module, contest in every_plan():
        for case in contest.cases:
            again = parse(case.name)
            assert (again.problem, again.variant, again.setting) == (case.problem, case.variant, case.setting)
            _, arguments = request(modules[module], module, shlex.split(Repeat(module).line(case))[3:])
            assert arguments.variant == case.variant
            assert modules[module].default not in arguments.flags


def test_no_two_contests_of_a_name() -> None:
    for build in (update.fused, update.batch):
        names = [contest.name for contest in build(asked("all"))]
        assert len(names) == len(set(names))
    for build in (optimizer.rules, optimizer.together):
        names = [contest.name for contest in build(asked_optimizer("all"))]
        assert len(names) == len(set(names))


def test_sizes_and_libraries_that_are_named_are_kept_to() -> None:
    found = update.fused(asked(rows=("separate:mkl", "fused:mkl"), m=(8,), n=(16,), k=(4,)))
    assert {c.name for c in found if c.name.startswith("fused/")} == {"fused/update/m:8/n:16/k:4/mkl"}
    batches = [c.cases[0].problem.k for c in update.batch(asked(k=(3, 9), rows=("fused:mkl",)))]  # type: ignore[attr-defined]
    assert batches == [3, 9]
    found = optimizer.together(asked_optimizer(tensors=(2, 4), size=(8,), rule=("adam",)))
    assert [c.name for c in found] == [f"tensors/optimizer/rule:adam/tensors:{t}/size:8" for t in (2, 4)]


def test_optimizers_are_measured_on_data_of_one_sign() -> None:
    for build in (optimizer.rules, optimizer.together):
        for contest in build(asked_optimizer()):
            assert {case.setting.data for case in contest.cases} == {"uniform"}
    first = optimizer.rules(asked_optimizer())[0]
    assert {case.problem.rule for case in first.cases} == set(NAMES)  # type: ignore[attr-defined]


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


def test_every_pair_of_one_call_and_many() -> None:
    (contest, *_) = optimizer.together(asked_optimizer(rule=("sgd",)))
    named = {(contest.cases[a].variant, contest.cases[b].variant) for a, b in contest.comparisons}
    assert {("c", "c-each"), ("numpy", "numpy-each"), ("torch-fused", "torch-loop")} <= named


@pytest.mark.parametrize(
    ("kind", "number", "contests"),
    [
        ("cpu", 0, {"fused", "gain", "rules", "tied", "ways"}),
        ("cpu", 1, {"batch"}),
        ("cuda", 0, {"fused", "gain", "rules", "tied", "ways"}),
        ("cuda", 1, {"update"}),
        ("cuda", 2, {"batch"}),
    ],
)
def test_useful_lines_of_updates_ask_what_they_are_for(kind: str, number: int, contests: set[str]) -> None:
    assert useful(update.BENCHMARK, "update", kind, number) == contests


@pytest.mark.parametrize(("number", "contests"), [(0, {"gain", "traffic", "ways"}), (1, {"tensors"})])
@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_useful_lines_of_optimizers_ask_what_they_are_for(kind: str, number: int, contests: set[str]) -> None:
    assert useful(optimizer.BENCHMARK, "optimizer", kind, number) == contests


def useful(benchmark: Benchmark, name: str, kind: str, number: int) -> set[str]:
    """What the contests of a useful line ask, at its small size; in each something can be measured."""
    device = {"cpu": "cpu", "cuda": "fake:cuda"}[kind]
    lines = [line for line in benchmark.useful if bool(line.rank) == (kind == "cuda")]
    line = shlex.split(lines[number].words)
    meant, arguments = request(benchmark, name, [*line, *benchmark.small.split(), "--device", device])
    contests = planned(meant, name, arguments).contests
    assert all(case.setting.device == device for contest in contests for case in contest.cases)
    assert all(any(not case.skip for case in contest.cases) for contest in contests)
    return {contest.name.partition("/")[0] for contest in contests}


def test_every_useful_line_is_looked_at() -> None:
    assert [bool(line.rank) for line in update.BENCHMARK.useful] == [False, False, True, True, True]
    assert [bool(line.rank) for line in optimizer.BENCHMARK.useful] == [False, False, True, True]


@pytest.mark.parametrize("argv", [["--together", "--budget", "2s"], ["--tensors", "2,4"], ["--rules"]])
def test_a_question_of_the_optimizer_alone_is_put_here_too(argv: list[str]) -> None:
    assert request(update.BENCHMARK, "update", argv)[0].problem is Optimizer


# The commands on the fake device


@pytest.mark.slow
def test_the_command_tells_forms_and_sums(told: Callable[..., Ran]) -> None:
    ran = told("--device", "fake", "-q", "--budget", "4s", "--m", "512", "--n", "300", "--k", "8", "--json", "-")
    assert ran.code == 0, ran.err
    text = " ".join(ran.err.split())
    assert "512×300, batch 8, openblas: separate takes " in text
    assert "rows unexplained: their parts miss them by more than 15%." in text
    document = json.loads(ran.out)
    assert sum(x["ratio"] is not None and x["low"] is not None for x in document["comparisons"]) >= 3
    assert not [x for x in document["results"] if x["status"] in ("wrong", "failed")]


@pytest.mark.slow
def test_the_batch_is_told(told: Callable[..., Ran]) -> None:
    ran = told("--device", "fake", "-q", "--batch", "--budget", "4s", "--m", "256", "--n", "256")
    assert ran.code == 0 and "the pass over W costs as much as its gradient between batch " in " ".join(ran.out.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flag", "begins"), [("--rules", "tensors:1 size:64 c, times "), ("--together", "tensors:2 size:64, times c: ")]
)
def test_questions_of_the_optimizer_are_answered(told: Callable[..., Ran], flag: str, begins: str) -> None:
    size = ("--tensors", "2" if flag == "--together" else "1", "--size", "64", "--rule", "sgd,momentum")
    ran = told(flag, *size, "--device", "fake", "-q", "--budget", "4s")
    assert ran.code == 0, ran.err
    assert begins in ran.out
    assert "python -m micro.update --rule" in told(flag, *size, "--device", "fake", "--budget", "2s", "-v").out


def test_squares_are_refused_on_normal_data(
    capsys: pytest.CaptureFixture[str], own_state: Path, in_process: Callable[..., Ran]
) -> None:
    argv = ["--rule", "adam", "--size", "64", "--variant", "c", "--data", "normal", "--until", "build", "-v"]
    ran = in_process(capsys, main, optimizer.BENCHMARK, "optimizer", argv)
    assert "adam keeps squares, which are not negative: --data uniform" in " ".join(ran.out.split())


def test_names_stay() -> None:
    assert Update(8, 16, 4).name == "update/m:8/n:16/k:4"
    assert Update(8, 16, 4, "unit", "update", lr=0.5).name == "update/m:8/n:16/k:4/rule:unit/part:update/lr:0.5"
    assert Optimizer("adam", 2, 8).name == "optimizer/rule:adam/tensors:2/size:8"
