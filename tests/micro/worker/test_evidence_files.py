"""Where the evidence of a wrong kernel lies: beside the run file, only where there is one, one file a case."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.devices.fake import Fake
from kernels.errors import WrongResult
from kernels.ops.gemm.problem import Gemm as Problem
from micro.planning.contest import Case
from micro.worker import evidence, guards
from tests.conftest import Ran

Gemm = Callable[..., Ran]
SQUARE = Problem(24, 24, 40)
SIZE = ("--m", "8", "--n", "8", "--k", "8", "--variant", "openblas", "--device", "fake", "-q")
HONEST = Fake._answer


@pytest.fixture
def bad(gemm: Gemm, monkeypatch: pytest.MonkeyPatch) -> Gemm:
    """The command on a device that answers zeros."""

    def answers(self: Any, problem: Any, buffers: Any) -> None:
        buffers[-1][...] = 0

    monkeypatch.setattr(Fake, "_answer", answers)
    return gemm


@pytest.mark.parametrize("keep", [False, True])
def test_evidence_lies_beside_the_run_file(bad: Gemm, tmp_path: Path, keep: bool) -> None:
    ran = bad(*SIZE, "-o", str(tmp_path / "run.jsonl"), *["--keep-wrong"] * keep)
    assert ran.code == 1
    (found,) = (tmp_path / "run.wrong").glob("gemm-m_8-n_8-k_8-variant_openblas-device_fake-threads_1-*.json")
    assert f"wrong: answers zeros (evidence: {found})" in "".join(ran.out.splitlines())
    (line,) = [x for x in (tmp_path / "run.jsonl").read_text().splitlines() if '"kind":"contest"' in x]
    assert json.loads(line)["results"][0]["evidence"] == str(found)
    assert json.loads(found.read_text())["wrong"] == 64
    assert found.with_suffix(".npz").exists() is keep
    assert sorted(x.name for x in tmp_path.iterdir() if x.name != "state") == ["run.jsonl", "run.wrong"]


def test_without_a_run_file_there_is_no_evidence(bad: Gemm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = bad(*SIZE)
    assert ran.code == 1 and "wrong: answers zeros" in ran.out and "evidence" not in ran.out
    assert [x.name for x in tmp_path.iterdir() if x.name != "state"] == []
    ran = bad(*SIZE, "--keep-wrong")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "micro.gemm: --keep-wrong: it needs a run file, -o FILE\n"


def test_right_kernels_leave_nothing(gemm: Gemm, tmp_path: Path) -> None:
    assert gemm(*SIZE, "--keep-wrong", "-o", str(tmp_path / "run.jsonl")).code == 0
    assert not (tmp_path / "run.wrong").exists()


def test_a_wrong_kernel_stays_wrong_where_its_evidence_cannot_be_written(bad: Gemm, tmp_path: Path) -> None:
    (tmp_path / "run.wrong").write_text("in the way\n")
    ran = bad(*SIZE, "-o", str(tmp_path / "run.jsonl"))
    assert ran.code == 1 and "wrong: answers zeros" in ran.out


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


@pytest.mark.parametrize("variant", ["größe und 幅/mine.py:f", "../a b/%.py:f", "x" * 300 + ".py:f", "-o.py:f"])
def test_names_are_taken_by_file_systems(tmp_path: Path, variant: str) -> None:
    case = Case(SQUARE, variant)
    found = evidence.path(tmp_path, case)
    found.write_text("")
    assert found.parent == tmp_path and len(found.name) <= evidence.LONGEST + 15
    assert found.name.isprintable() and not set(found.name) & set(' /:*?"<>|\\%')
    assert found != evidence.path(tmp_path, Case(SQUARE, variant.replace(":f", ":g")))


def test_long_names_in_other_alphabets(tmp_path: Path) -> None:
    evidence.path(tmp_path, Case(SQUARE, "幅" * 100 + ".py:f")).write_text("")


def test_no_two_cases_share_a_file(tmp_path: Path) -> None:
    names = {evidence.path(tmp_path, Case(SQUARE, f"{word}.py:f")) for word in ("a b", "a+b", "a_b", "a%b")}
    assert len(names) == 4
