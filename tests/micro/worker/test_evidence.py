"""What a wrong kernel leaves beside its run file: where, how many, how far off, and the operands themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.devices import open_device
from kernels.devices.fake import Fake
from kernels.errors import WrongResult
from kernels.ops.gemm.problem import Gemm as Problem
from kernels.problem import Evidence
from micro.planning.contest import Case
from micro.worker import evidence, guards
from micro.worker import evidence as worker_evidence
from micro.worker.host import Host
from tests.conftest import Ran

CPU = open_device("cpu")
SQUARE = Problem(24, 24, 40)
ADDS = Problem(17, 23, 33, "tn", alpha=2.5, beta=0.5, ld_pad=3)
SEED = 17


pytestmark = pytest.mark.usefixtures("no_late_answers")


def wrong(name: str, problem: Problem = SQUARE) -> Case:
    return Case(problem, f"tests.wrong.kernels:{name}")


def left(folder: Path, case: Case, keep: bool = False) -> dict[str, Any]:
    """What the check of a wrong kernel wrote; strictly JSON."""
    with pytest.raises(WrongResult) as error:
        Host(CPU, 0).check(case, SEED, folder, keep)

    def unknown(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    text = worker_evidence.path(folder, case).read_text("utf-8")
    told: dict[str, Any] = json.loads(text, parse_constant=unknown)
    assert told["reason"] == str(error.value) and told["case"] == case.name
    return told


# name, problem; values, wrong ones, the first of them
KINDS = [
    ("LAST_TERM_MISSING_ONCE", SQUARE, 576, 1, [12, 12]),
    ("LAST_ROW_ZERO", SQUARE, 576, 24, [23, 0]),
    ("LAST_ROW_MISSING", SQUARE, 576, 24, [23, 0]),
    ("LAST_ROW_MISSING", ADDS, 391, 23, [16, 0]),
    ("INFINITE", SQUARE, 576, 1, [0, 23]),
    ("WRITES_NOTHING", SQUARE, 576, 576, [0, 0]),
    ("ZEROS", ADDS, 391, 391, [0, 0]),
    ("CACHED", ADDS, 391, 40, None),
    ("BETA_IGNORED", ADDS, 391, 391, [0, 0]),
    ("HALF_INPUTS", Problem(8, 8, 26752), 64, None, None),
]


@pytest.mark.parametrize(("name", "problem", "values", "bad", "first"), KINDS)
def test_the_numbers(
    tmp_path: Path, name: str, problem: Problem, values: int, bad: int | None, first: list[int] | None
) -> None:
    told = left(tmp_path, wrong(name, problem))
    assert (told["seed"], told["test"]) == (SEED, told["probe"]) and told["probe"] in ("dense", "sparse", "graded")
    assert told["values"] == values and (bad is None or told["wrong"] == bad)
    assert first is None or told["first"] == first
    spread = told["error_over_allowed"]
    assert sum(spread["counts"]) + spread["not_a_number"] == values
    assert len(spread["counts"]) == len(spread["edges"]) == len(worker_evidence.DECADES) + 1
    beyond = sum(spread["counts"][spread["edges"].index(1.0) :])
    assert beyond + spread["not_a_number"] == told["wrong"]


def test_the_worst_value_and_what_is_counted_apart(tmp_path: Path) -> None:
    told = left(tmp_path, wrong("LAST_TERM_MISSING_ONCE"))
    assert told["worst"]["index"] == [12, 12] and told["worst"]["error"] > told["worst"]["allowed"] > 0
    assert "operands" not in told and not list(tmp_path.glob("*.npz"))  # kept only where they are asked for
    told = left(tmp_path, wrong("INFINITE"))
    assert told["worst"] == {"index": [0, 23], "error": None, "allowed": pytest.approx(4e-5, rel=0.9)}
    infinite = told["error_over_allowed"]
    assert (infinite["not_a_number"], infinite["counts"][-1]) == (0, 1)
    nothing = left(tmp_path, wrong("LAST_ROW_MISSING"))["error_over_allowed"]  # NaN, as it was poisoned
    assert nothing["not_a_number"] == 24 and sum(nothing["counts"]) == 552


def numbers(error: list[float], bound: list[float]) -> dict[str, Any]:
    evidence = Evidence("c", "dense", np.array([error]), np.array([bound]))
    return worker_evidence._numbers(worker_evidence.Found("dense", {}, {"c": np.zeros((1, len(error)))}, evidence))


def test_the_bars_of_the_histogram() -> None:
    told = numbers([0.0, 0.4, 0.5, 0.9, 1.0, 1.9, 5.0, 50.0, 5e8, np.inf, np.nan, 0.0, 1.0], [1.0] * 11 + [0.0] * 2)
    assert told["error_over_allowed"] == {
        "edges": [0.0, 0.5, 1.0, 2.0, 10.0, 1e2, 1e3, 1e4, 1e6],
        "counts": [3, 2, 2, 1, 1, 0, 0, 0, 3],
        "not_a_number": 1,
    }
    assert (told["values"], told["wrong"], told["first"]) == (13, 7, [0, 5])  # what is just allowed is right
    assert told["worst"]["index"] == [0, 9]  # the infinite one, not the one that is no number
    told = numbers([0.0, np.nan], [0.0, 0.0])
    assert (told["wrong"], told["error_over_allowed"]["not_a_number"]) == (1, 1)


# The operands


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("LAST_TERM_MISSING_ONCE", SQUARE),
        ("LAST_ROW_ZERO", ADDS),
        ("HALF_OUTPUT", ADDS),
        ("INFINITE", SQUARE),
        ("LAST_ROW_MISSING", SQUARE),
        ("SPLIT_BF16", Problem(8, 8, 26752)),
        ("CACHED", SQUARE),
    ],
)
def test_kept_operands_reproduce_the_error(tmp_path: Path, name: str, problem: Problem) -> None:
    """The right product of what was kept, in float64 by other means, is as far from the answer as was said."""
    told = left(tmp_path, wrong(name, problem), keep=True)
    with np.load(tmp_path / told["operands"], allow_pickle=False) as kept:
        x = {key: kept[key] for key in kept}
    assert set(x) == {"a", "b", "answer"} | ({"c"} if problem.beta else set())
    again = problem.fill(np.random.default_rng(told["seed"]), told["probe"])
    assert name != "LAST_ROW_ZERO" or all(np.array_equal(again[key], x[key]) for key in "ab")
    a, b = (x[n].astype("f8") if t == "n" else x[n].astype("f8").T for n, t in zip("ab", problem.trans, strict=True))
    want = problem.alpha * np.einsum("ik,kj->ij", a, b) + (problem.beta * x["c"] if problem.beta else 0)
    error = np.abs(x["answer"] - want)
    at = tuple(told["worst"]["index"])
    if told["worst"]["error"] is None:
        assert not np.isfinite(error[at])
    else:
        assert error[at] == pytest.approx(told["worst"]["error"], rel=1e-4)  # a reference leaves idle terms out
        added = abs(problem.beta * x["c"][at]) if problem.beta else 0
        allowed = 2.0**-20 * (abs(problem.alpha) * (np.abs(a) @ np.abs(b))[at] + added)
        assert told["worst"]["allowed"] == pytest.approx(allowed, rel=1e-5)


@pytest.mark.parametrize("name", ["WRITES_PAST_END", "CHANGES_INPUT"])
def test_what_was_not_compared_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(WrongResult):
        Host(CPU, 0).check(wrong(name), SEED, tmp_path / "run.wrong", True)
    Host(CPU, 0).check(Case(SQUARE, "openblas"), SEED, tmp_path / "run.wrong", True)
    assert not (tmp_path / "run.wrong").exists()


# Where it lies


Gemm = Callable[..., Ran]
SIZE = ("--m", "8", "--n", "8", "--k", "8", "--variant", "openblas", "--device", "fake", "-q")
HONEST = Fake._answer


@pytest.fixture
def bad(gemm: Gemm, monkeypatch: pytest.MonkeyPatch) -> Gemm:
    """The command on a device that returns zeros."""

    def answers(self: Any, problem: Any, buffers: Any) -> None:
        buffers[-1][...] = 0

    monkeypatch.setattr(Fake, "_answer", answers)
    return gemm


@pytest.mark.parametrize("keep", [False, True])
def test_evidence_lies_beside_the_run_file(bad: Gemm, tmp_path: Path, keep: bool) -> None:
    ran = bad(*SIZE, "-o", str(tmp_path / "run.jsonl"), *["--keep-wrong"] * keep)
    assert ran.code == 1
    (found,) = (tmp_path / "run.wrong").glob("gemm-m_8-n_8-k_8-variant_openblas-device_fake-threads_1-*.json")
    assert f"wrong: returns zeros (evidence: {found})" in "".join(ran.out.splitlines())
    (line,) = [x for x in (tmp_path / "run.jsonl").read_text().splitlines() if '"kind":"contest"' in x]
    assert json.loads(line)["results"][0]["evidence"] == str(found)
    assert json.loads(found.read_text())["wrong"] == 64
    assert found.with_suffix(".npz").exists() is keep
    assert sorted(x.name for x in tmp_path.iterdir() if x.name != "state") == ["run.jsonl", "run.wrong"]


def test_without_a_run_file_there_is_no_evidence(bad: Gemm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = bad(*SIZE)
    assert ran.code == 1 and "wrong: returns zeros" in ran.out and "evidence" not in ran.out
    assert [x.name for x in tmp_path.iterdir() if x.name != "state"] == []
    ran = bad(*SIZE, "--keep-wrong")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "micro.gemm: --keep-wrong: requires a run file, -o FILE\n"


def test_a_wrong_kernel_stays_wrong_where_its_evidence_cannot_be_written(bad: Gemm, tmp_path: Path) -> None:
    (tmp_path / "run.wrong").write_text("in the way\n")
    ran = bad(*SIZE, "-o", str(tmp_path / "run.jsonl"))
    assert ran.code == 1 and "wrong: returns zeros" in ran.out


def test_evidence_of_an_earlier_run_is_not_taken_for_this_one_s(bad: Gemm, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    bad(*SIZE, "-o", str(path))
    path.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards.Bench, "refuse_strays", _strays)
        patch.setattr(Fake, "_answer", HONEST)
        ran = bad(*SIZE, "-o", str(path))
    assert "writes outside its operands" in ran.out
    assert "(evidence:" not in ran.out


def _strays(self: Any, x: Any) -> None:
    raise WrongResult("writes outside its operands")


# Names


@pytest.mark.parametrize(
    "variant", ["größe und 幅/mine.py:f", "../a b/%.py:f", "x" * 300 + ".py:f", "幅" * 100 + ".py:f"]
)
def test_names_are_taken_by_file_systems(tmp_path: Path, variant: str) -> None:
    case = Case(SQUARE, variant)
    found = evidence.path(tmp_path, case)
    found.write_text("")
    assert found.parent == tmp_path and len(found.name) <= evidence.LONGEST + 15
    assert found.name.isprintable() and not set(found.name) & set(' /:*?"<>|\\%')
    for other in (variant.replace(":f", ":g"), variant.replace(" ", "+").replace("%", "_")):
        assert found != evidence.path(tmp_path, Case(SQUARE, other)) or other == variant
