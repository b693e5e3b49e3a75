"""Proofs of equal work: each defect is caught by its name, what is odd but right passes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.errors import SuiteError, UsageError
from macro import command
from macro.equality import proof, timed
from macro.equality.answer import Answer, Question
from macro.frameworks import find
from macro.processes.job import Setting
from macro.watching import perf
from tests.builds import share
from tests.macro.conftest import EIGHTH as SMALL

ROOT = Path(__file__).parents[3]
FILE = "tests/macro/defects.py"
CAUGHT = {
    "relu-logits": "ReLU on the logits",
    "double-softmax": "double log-softmax",
    "dropped-layer": "a dropped layer (fc2)",
    "trainable-input": "trainable input (x)",
    "sum-loss": "mean for sum in the loss",
    "float64": "missing input cast (float64)",
    "float64-told": "missing input cast (float64)",
    "unit-gain": "unit-gain momentum",
}
RIGHT = ("nan-gradients", "transposed", "log-softmax-twice")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `macro equal` says of each row, by the command itself."""
    names = ",".join(f"{FILE}:{row}" for row in (*CAUGHT, *RIGHT, "no-forward"))
    folder = tmp_path_factory.mktemp("equal")
    (folder / "small.json").write_text(json.dumps(SMALL.data()))
    ran = subprocess.run(
        [sys.executable, "-m", "macro", "equal", str(folder / "small.json"), "--frameworks", names, "-q"],
        cwd=ROOT,
        env=os.environ | {"KERNELGAP_STATE": str(share(folder))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    return dict(re.findall(rf"^  {FILE}:(\S+): (.*)$", ran.stdout, re.MULTILINE))


@pytest.mark.parametrize("row", CAUGHT)
def test_a_defect_is_caught_by_its_name(told: dict[str, str], row: str) -> None:
    assert told[row].startswith(f"NOT EQUAL: {CAUGHT[row]}: ")


def test_a_forward_pass_by_itself_is_compared_too(told: dict[str, str]) -> None:
    assert told["no-forward"].startswith("NOT EQUAL: outputs differs by ")


@pytest.mark.parametrize("row", RIGHT)
def test_what_is_odd_but_right_passes(told: dict[str, str], row: str) -> None:
    assert told[row].startswith("equal; ")


@pytest.mark.slow
@pytest.mark.usefixtures("own_state")
def test_the_reference_is_summed_in_other_orders_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answers = list[dict[str, Any]](), proof.answers

    def counted(questions: Sequence[Question]) -> Generator[Answer | SuiteError, None, None]:
        asked.extend(one.setting.knobs for one in questions)
        return answers(questions)

    monkeypatch.setattr(proof, "answers", counted)
    found = [proof.reference(SMALL, 16, tmp_path)[1] for _ in range(2)]
    assert found[0] == found[1] and len(found[0]) > 10
    moved: list[dict[str, Any]] = [{}] * len(timed.SEEDS)
    assert asked == [{}, {"shares": proof.COARSE}, {"order": "reversed"}, {"order": "shuffled"}, *moved, {}]
    proof.reference(SMALL, 8, tmp_path)  # other work, other bounds
    assert len(asked) == 15


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("absent.py", "No such file"),
        (f"{FILE}:none", f"name one of its rows, e.g. {FILE}:relu-logits"),
        (FILE, "name one of its rows"),
        ("README.md", "choose from "),
        ("no-such~b", "choose from "),
    ],
)
def test_no_framework_is_one_line(name: str, reason: str) -> None:
    with pytest.raises(UsageError) as error:
        find(name)
    assert reason in str(error.value) and name.removesuffix("~b") in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_adapter_is_said(tmp_path: Path) -> None:
    rows = ("dict(a={})", "{", "['a']", "{'a': None}", "{1: {}}", "None", "{}\nRECIPE = ['numpy']")
    for text in (f"ROWS = {x}\n" for x in rows):
        (tmp_path / "x.py").write_text(text)
        with pytest.raises(UsageError, match="not an adapter with literal ROWS"):
            find(f"{tmp_path}/x.py")


def test_a_framework_named_again_is_its_own_twin() -> None:
    found = command.frameworks("numpy,pytorch,numpy,numpy~b,numpy")
    assert [x.name for x in found] == ["numpy", "pytorch", "numpy~b", "numpy~b~b", "numpy~c"]
    assert found[2].path == found[0].path


IDENTITY = {"version": "1", "blas": "x", "variables": {"OMP_NUM_THREADS": "1"}, "libraries": ["libx.so"], "flags": {}}


@pytest.mark.parametrize(
    ("other", "preload", "processor", "holds"),
    [
        ({"variables": {"OMP_NUM_THREADS": "2", "MALLOC_TRIM_THRESHOLD_": "-1"}}, "", None, True),
        ({"variables": IDENTITY["variables"] | perf.NAMED}, "", None, True),  # of processes that `explain` watches
        ({"threads": {"omp": 2}}, "", None, True),
        ({"variables": {"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}}, "", None, False),
        ({"libraries": ["liby.so"]}, "", None, False),
        ({"dispatch": "AVX2"}, "", None, False),
        ({"flags": {"precision": "medium"}}, "", None, False),
        ({}, "jemalloc", None, True),  # another allocator
        ({}, "mkl-intel", None, False),  # other products
        ({}, "jemalloc+sgemm-openblas", None, False),
        ({}, "", "another: avx512f", False),
    ],
)
@pytest.mark.usefixtures("own_state")
def test_a_proof_holds_for_the_same_variables_libraries_and_instructions(
    other: dict[str, Any], preload: str, processor: str | None, holds: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    numpy, verdict = find("numpy"), proof.Verdict("numpy", True, None, 0.1, "loss 0", proof="against NumPy at batch 8")
    proof.keep(SMALL, 8, numpy, Setting(), IDENTITY, verdict)
    assert proof.proven(SMALL, 8, numpy, Setting(), IDENTITY) == "against NumPy at batch 8"
    if processor:
        monkeypatch.setattr(proof, "processor", lambda: processor)
    setting = Setting(preload=preload) if preload else Setting()
    assert bool(proof.proven(SMALL, 8, numpy, setting, IDENTITY | other)) == holds


def test_a_step_that_goes_another_way_where_weights_are_off_is_within_the_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding decides on which side of zero a number lies: no order of sums here does, one set of weights does."""
    import numpy as np

    def answer(asked: Question) -> Answer:
        other = asked.seed == 2
        arrays = {"after10.fc1.weight": np.ones(4, np.float32) * np.float32(1.001 if other else 1)}
        return Answer("numpy", {}, {"parameters": {}}, (1.0, 1.0, 1.002 if other else 1.0), arrays)

    monkeypatch.setattr(proof, "answers", lambda questions: map(answer, questions))
    asked = Question(find("numpy"), SMALL, 16, Setting(), tmp_path)
    bounds = proof._bounds(answer(asked), asked)
    assert bounds["after10.fc1.weight"] == pytest.approx(timed.TWICE * 0.001, rel=1e-3)
    assert bounds["loss"] == pytest.approx(timed.TWICE * 0.002, rel=1e-3)


def test_a_network_that_diverges_is_said_of_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    want = Answer("numpy", {}, {"parameters": {}}, (1.0, float("inf"), float("nan")), {})
    monkeypatch.setattr(proof, "reference", lambda *of: (want, {}))
    (verdict,) = proof.prove(SMALL, 16, [(find("numpy"), Setting())], tmp_path, lambda text: None)
    assert not verdict.compared and str(verdict.why).startswith("the reference diverges (losses 1, inf, nan): ")


@pytest.mark.usefixtures("own_state")
def test_steps_that_move_nothing_prove_nothing(tmp_path: Path) -> None:
    (verdict,) = proof.prove(replace(SMALL, rate=1e-9), 16, [(find("numpy"), Setting())], tmp_path, lambda text: None)
    assert not verdict.compared and str(verdict.why).endswith("a rate larger than 1e-09")


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ((1e-4, 1e-4), []),
        ((1e-4, 1.0), ["weights after 10 steps prove nothing, as rounding changes them as much as the steps"]),
        ((1.0, 1e-4), ["weights after 1 step prove nothing, as rounding changes them as much as the steps"]),
        ((1.0, 1.0), None),
    ],
)
def test_steps_in_which_rounding_has_grown_are_told(
    tmp_path: Path, bounds: tuple[float, float], told: list[str] | None
) -> None:
    given = np.ones(4, np.float32)
    np.savez(tmp_path / "weights.npz", fc=given)
    arrays = {"gradient.fc": given, "after1.fc": 1.01 * given, "after10.fc": 1.1 * given}
    want = Answer("numpy", {}, {"parameters": {"fc": 4}}, (1.0,), arrays)
    of_steps = dict(zip(("after1.fc", "after10.fc"), bounds, strict=True))
    why, unseen = proof._untellable(want, of_steps, str(tmp_path / "weights.npz"), 0.01)
    assert (why is not None) == (told is None) and unseen == (told or [])


def test_what_rounding_does_to_one_layer_it_may_do_to_another() -> None:
    off_by = {"gradient.a.weight": 1e-3, "gradient.b.weight": 1e-6, "gradient.c.weight": 1e-4, "after1.a.weight": 9.0}
    parameters = {"a.weight": 1, "b.weight": 1, "c.weight": 1}
    assert timed.usual("gradient.b.weight", off_by, parameters) == 1e-4
    assert timed.usual("gradient.norm.mean", off_by, parameters) == 0.0
