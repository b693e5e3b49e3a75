"""The check of outputs of any rank, equal edges among them: a wrong one is wrong, and its evidence is kept."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

from kernels.devices import open_device
from kernels.errors import WrongResult
from kernels.launch import Launch
from kernels.ops.norm.problem import Norm
from kernels.problem import Operand, Problem, axis
from kernels.setting import Setting
from kernels.variant import Variant
from micro.planning.contest import Case
from micro.worker import check, evidence
from micro.worker.host import Host

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Array, Arrays

CPU = open_device("cpu")
SHAPES = ["1", "5", "4x4", "4x4x4", "4x4x3", "3x4x4", "4x3x4", "3x3x3x3", "3x3x2x2", "2x3x3x2", "1x1x1x1"]


@dataclass(frozen=True)
class Twice(Problem):
    """y = 2 x, of any shape; exact."""

    op: ClassVar[str] = "twice"

    shape: str = axis("edges, as 4x4x3")

    @property
    def flops(self) -> float:
        return float(math.prod(self.edges))

    @property
    def edges(self) -> tuple[int, ...]:
        return tuple(int(word) for word in self.shape.split("x"))

    def operands(self) -> tuple[Operand, ...]:
        return Operand("x", self.edges, "in"), Operand("y", self.edges, "out", pad=3)

    def reference(self, x: Arrays) -> dict[str, Array]:
        return {"y": 2 * x["x"].astype("f8")}

    def bound(self, x: Arrays, want: Arrays, u: float) -> dict[str, Array]:
        return {"y": u * np.abs(want["y"])}


pytestmark = pytest.mark.usefixtures("no_late_answers")


def answers(change: Callable[[Array], object]) -> Variant[Any]:
    """A row that answers what `change` makes of the right answer, in place or by what it returns."""

    def prepare(problem: Any, device: object, setting: object) -> Bind:
        def bind(buffers: Sequence[Array]) -> Launch:
            def call() -> None:
                want = 2 * buffers[0]
                made = change(want)
                buffers[1][...] = want if made is None else made

            return Launch(call)

        return bind

    return Variant("answers", "cpu", "tests", prepare, python=True)


def checked(shape: str, change: Callable[[Array], object]) -> check.Passed:
    problem, row = Twice(shape), answers(change)
    return check.check(CPU, problem, row, row.prepare(problem, CPU, Setting()), 1)[0]


def fault(shape: str, change: Callable[[Array], object]) -> tuple[str, dict[str, Any]]:
    """What is said of a wrong answer, and the numbers that are left."""
    with pytest.raises(WrongResult) as error:
        checked(shape, change)
    return str(error.value), evidence._numbers(error.value.evidence)


@pytest.mark.parametrize("shape", SHAPES)
def test_one_wrong_value_is_found_and_told_by_its_place(shape: str) -> None:
    def last_off(want: Array) -> None:
        want[(-1,) * want.ndim] += 1

    assert checked(shape, lambda want: None).error == 0
    edges = Twice(shape).edges
    told, numbers = fault(shape, last_off)
    last, count = [edge - 1 for edge in edges], math.prod(edges)
    if count > 1:  # of a single value the factor is told
        assert re.fullmatch(rf"dense probe: 1 of {count} values have errors .*, first at {re.escape(str(last))}", told)
    assert (numbers["values"], numbers["wrong"]) == (count, 1)
    assert numbers["first"] == numbers["worst"]["index"] == last


@pytest.mark.parametrize("shape", SHAPES)
def test_a_factor_an_unwritten_and_an_infinite_value_are_told(shape: str) -> None:
    edges = Twice(shape).edges
    assert fault(shape, lambda want: 2 * want)[0].startswith("wrong by the factor 2: ")
    assert fault(shape, lambda want: np.full_like(want, np.inf))[0] == f"infinite at {[0] * len(edges)}"
    assert fault(shape, lambda want: 0 * want)[0] == "returns zeros"
    assert fault(shape, lambda want: np.full_like(want, np.nan))[0].startswith("writes nothing")


@pytest.mark.parametrize(
    ("shape", "axes", "told"),
    [
        ("4x4", (0, 1), "returns the transposed result"),
        ("4x4x4", (0, 1), "returns the result with axes 0 and 1 exchanged"),
        ("3x4x4", (1, 2), "returns the result with axes 1 and 2 exchanged"),
        ("3x3x3x3", (1, 3), "returns the result with axes 1 and 3 exchanged"),
    ],
)
def test_exchanged_axes_are_told(shape: str, axes: tuple[int, int], told: str) -> None:
    assert fault(shape, lambda want: want.swapaxes(*axes).copy())[0] == told


ONE_VALUE_OFF = """
def off(problem, x, scale, shift, y, mean, rstd):
    right = problem.reference({"x": x, "scale": scale, "shift": shift})
    y[...], mean[...], rstd[...] = right["y"], right["mean"], right["rstd"]
    y[-1, -1, -1] += 1
"""


def test_a_wrong_tensor_of_equal_edges_leaves_its_evidence(tmp_path: Path) -> None:
    """As a worker checks a case: a normalization of as many images as maps."""
    (file := tmp_path / "kernel.py").write_text(ONE_VALUE_OFF)
    case = Case(Norm(4, 4, 4), f"{file}:off")
    with pytest.raises(WrongResult, match=r"^y: dense probe: 1 of 256 values have errors .* first at \[3, 3, 15\]$"):
        Host(CPU, 0).check(case, 17, tmp_path / "run.wrong", True)
    found = evidence.path(tmp_path / "run.wrong", case)
    told = json.loads(found.read_text("utf-8"))
    assert (told["operand"], told["wrong"], told["first"]) == ("y", 1, [3, 3, 15])
    with np.load(found.with_name(told["operands"])) as kept:
        assert kept["answer"].shape == (4, 4, 16)
        assert kept["answer_mean"].shape == kept["answer_rstd"].shape == (4,)
