"""A large network is proven twice: against NumPy at a small batch, and at the timed one against PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.errors import SuiteError, Unavailable
from macro.equality import proof, timed
from macro.equality.answer import Answer, Question
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes.job import Setting

NET = chain("small", "a test", 16, (6, 5, 3), rate=0.1)
COUNTS = {"fc1.weight": 30, "fc1.bias": 5, "out.weight": 15, "out.bias": 3}


Change = Callable[[Question, dict[str, Any]], dict[str, Any]]


class Frameworks:
    """Answers with ones; JAX has an array that is `off` at this batch; `change` gives others; PyTorch is `missing`."""

    def __init__(
        self, array: str = "", off: float = 0.0, at: int = 16, missing: bool = False, change: Change | None = None
    ) -> None:
        self.array, self.off, self.at, self.missing, self.change = array, off, at, missing, change
        self.asked: list[tuple[str, int, tuple[int, ...]]] = []

    def answers(self, questions: Sequence[Question]) -> Generator[Answer | SuiteError, None, None]:
        yield from (self.answer(one) for one in questions)

    def answer(self, asked: Question) -> Answer | SuiteError:
        framework, batch, counts = asked.framework, asked.batch, asked.counts
        self.asked.append((framework.name, batch, tuple(counts)))
        if self.missing and framework.name == "pytorch":
            return Unavailable("not here")
        names = [f"{x}.{name}" for x in ("gradient", *(f"after{i}" for i in counts)) for name in COUNTS]
        arrays: dict[str, Any] = {name: np.ones(COUNTS[name.partition(".")[2]], np.float32) for name in names}
        arrays |= {f"after{i}.norm.mean": np.ones(3, np.float32) for i in counts}
        if framework.name == "jax" and batch == self.at and self.array in arrays:
            arrays[self.array] = arrays[self.array] * np.float32(1 + self.off)
        if self.change and batch == 16:
            arrays = self.change(asked, arrays)
        built = {"parameters": COUNTS, "batch": batch, "dtype": "float32"}
        return Answer(framework.name, {"framework": framework.name}, built, (1.0, 0.9, 0.8), arrays)


def proven(frameworks: Frameworks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> proof.Verdict:
    for module in (proof, timed):
        monkeypatch.setattr(module, "answers", frameworks.answers)
    monkeypatch.setattr(timed, "LARGE", 1.0)
    monkeypatch.setattr(proof, "_stored", lambda name: None)
    monkeypatch.setattr(proof, "_store", lambda name, record: None)
    monkeypatch.setattr(proof, "_untellable", lambda *of: (None, []))
    (verdict,) = proof.prove(NET, 16, [(find("jax"), Setting())], tmp_path, lambda text: None)
    return verdict


def test_both_batches_are_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    frameworks = Frameworks()
    verdict = proven(frameworks, monkeypatch, tmp_path)
    assert verdict.equal and verdict.proof.startswith("against NumPy at batch 2; at batch 16 against pytorch")
    assert [x for x in frameworks.asked if x[0] != "numpy"] == [
        *[("pytorch", 16, (1,))] * (1 + len(timed.SEEDS)),
        ("jax", 2, (1, 10)),
        ("jax", 16, (1,)),
    ]
    assert {x[1] for x in frameworks.asked if x[0] == "numpy"} == {2}


@pytest.mark.parametrize(
    ("array", "at", "why"),
    [
        ("gradient.fc1.weight", 16, "norm of gradient.fc1.weight at batch 16 differs"),
        ("after1.norm.mean", 16, "after1.norm.mean at batch 16 differs"),
        ("gradient.fc1.weight", 2, "gradient.fc1.weight differs"),
    ],
)
def test_what_differs_at_one_batch_alone_is_found(
    array: str, at: int, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(proof.defects, "name", lambda *given: None)
    verdict = proven(Frameworks(array, 0.01, at), monkeypatch, tmp_path)
    assert not verdict.equal and str(verdict.why).startswith(why)


@pytest.mark.parametrize(
    ("who", "changed", "why"),
    [
        ("jax", None, "the answer lacks gradient.fc1.weight, at batch 16"),
        ("jax", np.full(30, np.nan, np.float32), "norm of gradient.fc1.weight at batch 16 differs by nan"),
        ("jax", np.ones((6, 5), np.float32), "gradient.fc1.weight at batch 16, of another shape, differs by inf"),
        ("pytorch", np.full(30, np.nan, np.float32), None),
    ],
)
def test_no_array_no_number_and_another_shape_at_the_timed_batch_are_differences(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, who: str, changed: Any, why: str | None
) -> None:
    monkeypatch.setattr(proof.defects, "name", lambda *given: None)

    def change(asked: Question, arrays: dict[str, Any]) -> dict[str, Any]:
        others = {name: x for name, x in arrays.items() if name != "gradient.fc1.weight"}
        given = {} if changed is None else {"gradient.fc1.weight": changed}
        return {**others, **given} if asked.framework.name == who else arrays

    verdict = proven(Frameworks(change=change), monkeypatch, tmp_path)
    assert verdict.compared and verdict.equal == (why is None)
    if why is None:  # what PyTorch says proves nothing of others
        assert verdict.proof.endswith("not compared at the timed batch: pytorch: the answer is not finite")
        (own,) = proof.prove(NET, 16, [(find("pytorch"), Setting())], tmp_path, lambda text: None)
        assert own.compared and own.why == "the answer at batch 16 is not finite"
    else:
        assert str(verdict.why).startswith(why)


def test_the_norms_of_gradients_may_be_off_as_pytorch_s_own_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where its weights are a little off: here one of the folders of such weights gives another gradient of a layer."""

    def change(asked: Question, arrays: dict[str, Any]) -> dict[str, Any]:
        moved = {"gradient.fc1.weight": np.full(30, 1.002, np.float32)}
        return {**arrays, **moved} if asked.framework.name == "pytorch" and asked.seed == 2 else arrays

    assert proven(Frameworks("gradient.fc1.weight", 0.01, change=change), monkeypatch, tmp_path).equal


def test_without_pytorch_the_small_batch_alone_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    verdict = proven(Frameworks(missing=True), monkeypatch, tmp_path)
    assert verdict.equal and verdict.proof.endswith("not compared at the timed batch: pytorch: not here")


def test_a_network_that_numpy_can_do_is_proven_once() -> None:
    assert timed.small(NET, 16) == 16 and timed.small(NET, 2) == 2
