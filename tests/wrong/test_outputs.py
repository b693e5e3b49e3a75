"""Every output of every operation is checked: answers wrong in one way each are refused with the output's name."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kernels.catalog import operations
from kernels.devices import open_device
from kernels.dtypes import decode, encode
from kernels.errors import LaunchError, WrongResult
from kernels.launch import Launch
from kernels.ops.softmax.problem import Softmax
from kernels.problem import Operand, Problem, axis
from kernels.setting import Setting
from kernels.variant import Variant
from micro.planning.contest import parse
from micro.worker.check import check

if TYPE_CHECKING:
    from kernels.problem import Array

    Answers = dict[str, Array]
    Fault = Callable[["Call", "Operand", Answers], None]

CPU = open_device("cpu")
NAMES = json.loads(Path(__file__).with_name("outputs.json").read_text("utf-8"))
PROBLEMS = [parse(f"{name}/variant:x").problem for name in NAMES]
OWN_MEMORY = {"chase", "pages"}  # what they answer of memory that is no operand; tests of their own


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of these writes late: tests/wrong/test_wrong.py has the one that does."""
    monkeypatch.setattr("micro.worker.check.LATE", 0.0)


@dataclass(frozen=True)
class Call:
    """A launch: its operands, what it remembers of earlier ones."""

    problem: Problem
    buffers: dict[str, Array]
    memory: dict[str, Array]

    def given(self) -> dict[str, Array]:
        """Copies of the operands, as `reference` takes them."""
        operands = zip(self.problem.operands(), self.buffers.values(), strict=True)
        return {x.name: view.copy() if x.below else decode(view) for x, view in operands}

    def write(self, answers: Answers) -> None:
        for name, answer in answers.items():
            CPU.put(self.buffers[name], answer)


def variant(call: Callable[[Call], None]) -> Variant[Any]:
    def prepare(problem: Problem, device: object, setting: object) -> Any:
        names, memory = [x.name for x in problem.operands()], dict[str, Any]()

        def bind(buffers: Sequence[Any]) -> Launch:
            mine = Call(problem, dict(zip(names, buffers, strict=True)), memory)
            return Launch(lambda: call(mine))

        return bind

    return Variant("wrong", "cpu", "tests", prepare)


def answered(problem: Problem, given: dict[str, Array]) -> Answers:
    with np.errstate(all="ignore"):
        return {name: np.array(answer, order="C") for name, answer in problem.reference(given).items()}


def honest(call: Call) -> None:
    call.write(answered(call.problem, call.given()))


def refusal(problem: Problem, row: Variant[Any]) -> str | None:
    try:
        check(CPU, problem, row, row.prepare(problem, CPU, Setting()), 3)
    except WrongResult as error:
        return str(error)
    return None


# Faults of one output, after the right answer


def element(call: Call, x: Operand, right: Answers) -> None:
    """One in the middle is off by half and one."""
    value = right[x.name].reshape(-1)[right[x.name].size // 2 :][:1]
    value += 1 + np.abs(value) / 2


def last(call: Call, x: Operand, right: Answers) -> None:
    value = right[x.name].reshape(-1)[-1:]
    value += 1 + np.abs(value) / 2


def not_a_number(call: Call, x: Operand, right: Answers) -> None:
    right[x.name].reshape(-1)[-1] = np.nan


def zeros(call: Call, x: Operand, right: Answers) -> None:
    right[x.name][...] = 0


def coarse(call: Call, x: Operand, right: Answers) -> None:
    """Right to eight bits."""
    right[x.name] = decode(encode(right[x.name], "bf16")).astype("f8")


def doubled(call: Call, x: Operand, right: Answers) -> None:
    right[x.name] *= 2


def unwritten(call: Call, x: Operand, right: Answers) -> None:
    del right[x.name]


def kept(call: Call, x: Operand, right: Answers) -> None:
    """What it answered first."""
    right[x.name] = call.memory.setdefault(x.name, right[x.name])


def past_its_end(call: Call, x: Operand, right: Answers) -> None:
    view = call.buffers[x.name]
    step = view.strides[-1]
    np.lib.stride_tricks.as_strided(view, (x.nbytes // step + 1,), (step,))[-1] = 1


def before_its_start(call: Call, x: Operand, right: Answers) -> None:
    view = call.buffers[x.name]
    np.lib.stride_tricks.as_strided(view, (2,), (-view.strides[-1],))[-1] = 1


OUTSIDE = (past_its_end, before_its_start)
FAULTS: tuple[Fault, ...] = (element, last, not_a_number, zeros, doubled, coarse, unwritten, kept, *OUTSIDE)


def wrong(fault: Fault, output: Operand) -> Variant[Any]:
    def call(launch: Call) -> None:
        right = answered(launch.problem, launch.given())
        fault(launch, output, right)
        launch.write(right)

    return variant(call)


def shown(problem: Problem) -> str:
    return problem.name


@pytest.mark.parametrize("problem", PROBLEMS, ids=shown)
def test_the_right_answer_passes(problem: Problem) -> None:
    assert refusal(problem, variant(honest)) is None


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("problem", PROBLEMS, ids=shown)
def test_a_fault_of_one_output_is_refused_by_its_name(problem: Problem, fault: Fault) -> None:
    for output in problem.outputs:
        reason = refusal(problem, wrong(fault, output))
        if (problem.op, output.name, fault) == ("gather", "table", unwritten):
            assert reason is None, "it stays as it was"
        elif fault in OUTSIDE:
            assert reason == "writes outside its operands"
        else:
            assert reason is not None, output.name
            assert len(problem.outputs) == 1 or reason.startswith(f"{output.name}: "), reason


@pytest.mark.parametrize("problem", PROBLEMS, ids=shown)
def test_two_equal_axes_exchanged_are_refused(problem: Problem) -> None:
    for output in problem.outputs:
        for i, j in itertools.combinations(range(len(output.shape)), 2):
            if output.shape[i] == output.shape[j] > 1:

                def exchanged(call: Call, x: Operand, right: Answers, axes: tuple[int, int] = (i, j)) -> None:
                    right[x.name] = right[x.name].swapaxes(*axes).copy()

                reason = refusal(problem, wrong(exchanged, output))
                assert reason is not None
                assert "the transposed result" in reason or f"axes {i} and {j} exchanged" in reason


@pytest.mark.parametrize("problem", PROBLEMS, ids=shown)
def test_an_input_that_is_changed_or_ignored_is_refused(problem: Problem) -> None:
    for x in problem.operands():
        if x.role == "in":

            def changes(call: Call, x: Operand = x) -> None:
                honest(call)
                view = call.buffers[x.name]
                view[(-1,) * view.ndim] = (view[(-1,) * view.ndim] + 1) % (x.below or 64)

            def ignores(call: Call, x: Operand = x) -> None:
                known = call.given()
                call.write(answered(call.problem, known | {x.name: np.zeros_like(known[x.name])}))

            assert refusal(problem, variant(changes)) == f"changes its input {x.name}"
            assert refusal(problem, variant(ignores)) is not None, x.name


# Indices


@pytest.mark.parametrize("end", ["first", "last"])
def test_a_kernel_that_is_wrong_at_an_end_of_the_classes_is_refused(end: str) -> None:
    """As one that takes class 0 for padding, or never reaches the last one."""

    def call(launch: Call) -> None:
        known = launch.given()
        wrong_one = 0 if end == "first" else 999
        labels = known["labels"]
        launch.write(answered(launch.problem, known | {"labels": np.where(labels == wrong_one, 500, labels)}))

    assert "dx: " in str(refusal(Softmax(8, 1000), variant(call)))


def test_indices_reach_from_the_first_to_the_last() -> None:
    for batch in (3, 8):
        labels = Softmax(batch, 1000).fill(np.random.default_rng(1))["labels"]
        assert labels.min() == 0 and labels.max() == 999
    assert {int(Softmax(1, 1000).fill(np.random.default_rng(seed))["labels"][0]) for seed in range(9)} != {0}


# What an operation forgets to check


@dataclass(frozen=True)
class Forgetful(Problem):
    """Two outputs, an answer of one."""

    op = "forgetful"

    count: int = axis("elements", low=1)

    @property
    def flops(self) -> float:
        return float(self.count)

    def operands(self) -> tuple[Operand, ...]:
        row = (self.count,)
        return Operand("x", row, "in"), Operand("y", row, "out"), Operand("z", row, "out")

    def reference(self, x: Any) -> dict[str, Array]:
        return {"y": x["x"].astype("f8")}

    def bound(self, x: Any, want: Any, u: float) -> dict[str, Array]:
        return {"y": 0 * want["y"]}


def test_an_output_without_an_answer_is_not_passed_over() -> None:
    with pytest.raises(LaunchError, match=r"^the check of forgetful does not cover z$"):
        refusal(Forgetful(4), variant(honest))


def test_every_operation_is_among_these() -> None:
    others = OWN_MEMORY | {"launch", "exchange"}  # a launch is a gemm's; the last is a GPU's alone
    assert {problem.op for problem in PROBLEMS} | others == set(operations())
