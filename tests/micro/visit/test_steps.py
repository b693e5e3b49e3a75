"""What a visit asks, in which order, and where it writes."""

from __future__ import annotations

import os
import signal
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels import state
from micro import gpu
from micro.visit import steps as visit_steps
from micro.visit.steps import Step, steps
from tests.micro.visit.conftest import ROOT, Plan, files, made, words


@pytest.mark.parametrize("here", [True, False])
def test_six_files_a_part_and_fifteen_in_all(tmp_path: Path, here: bool) -> None:
    found = [files(part, tmp_path, here) for part in visit_steps.PARTS]
    assert max(map(len, found)) <= 6 and len(set().union(*found)) <= 15


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("part", visit_steps.PARTS)
def test_the_device_is_the_one_that_is_here(tmp_path: Path, part: int, here: bool) -> None:
    told = [" ".join(step.command) for step in steps(part, tmp_path, here)]
    if part == 5:
        assert any("--device cuda:0 " in x for x in told) == here and any("--device fake" in x for x in told) != here
    elif part != 3:
        assert any(f"--device cuda:0 --part {part}" in x for x in told) == here
        assert any("--device fake:cuda --small" in x for x in told) != here
    assert any(x.endswith(" --fake") for x in told) == (not here and part in (1, 3))


def test_what_is_worth_most_comes_first(tmp_path: Path) -> None:
    """The front door behind a check of the hold alone; names behind all that is timed; of a part 1 of 240 s all steps
    fit."""
    asked = ([" ".join(step.command[:2]) for step in steps(part, tmp_path, True)] for part in visit_steps.PARTS)
    first, second, third, fourth, fifth = asked
    assert first[:2] == ["micro.probes --only", "micro all"]
    assert second[0] == fourth[0] == "micro all" and second[-1] == fourth[-1] == "pytest --tb=line"
    assert third == ["micro.probes --part"] and fifth == [
        "macro explain",
        "pytest --tb=line",
        "macro run",
        "macro explain",
        "macro explain",
    ]
    assert sum(step.seconds for step in steps(5, tmp_path, True)[:-1]) <= visit_steps.PARTS[5]
    for found in (first, second, fourth):
        timed = max(i for i, x in enumerate(found) if x == "micro all")
        assert min(i for i, x in enumerate(found) if x.startswith("micro.names")) > timed
    for part in (1, 2):
        visit_steps.run_file(tmp_path, part).touch()
    assert [step.name for step in steps(3, tmp_path, True)] == ["names", "probes"]


def test_of_less_time_each_step_has_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in visit_steps.PARTS:
        whole, half = steps(part, tmp_path, True), steps(part, tmp_path, True, 0.5)
        for one, other in zip(half, whole, strict=True):
            assert one.seconds == (other.seconds if one.spare else max(other.seconds / 2, visit_steps.SHORTEST))
            budgets = [x[x.index("--budget") + 1 :][:1] for x in (one.command, other.command) if "--budget" in x]
            assert not budgets or 2 * float(budgets[0][0][:-1]) == float(budgets[1][0][:-1])
    asked: list[float] = []
    monkeypatch.setattr(visit_steps, "steps", lambda part, out, here, share: asked.append(share) or ())
    for seconds in ("20", "999"):
        assert made("--out", str(tmp_path), "--seconds", seconds) == 0
    assert asked == [pytest.approx(20 / 240, rel=0.01), 1.0]


def test_what_has_what_others_left_is_not_missed(plan: Plan, tmp_path: Path) -> None:
    plan(Step("spare", ("this", "is", "no", "module"), 300.0, spare=True))
    assert made("--out", str(tmp_path), "--seconds", "20") == 0
    assert "spare: not begun, 20 s are too few for it" in words(tmp_path)


def test_the_tests_say_why_each_failed_and_warnings_are_none(tmp_path: Path) -> None:
    tests = [step for part in (2, 4, 5) for step in steps(part, tmp_path, True) if step.name == "tests"]
    for step in tests:
        assert step.stop == signal.SIGINT  # pytest then sums up
        assert {"--tb=line", "-rfE", "default"} <= set(step.command)
    assert {x for step in tests for x in step.command if x.startswith("tests/")} == {
        f"tests/gpu/{path.name}" for path in (ROOT / "tests/gpu").glob("test_*.py") if path.stem != "test_lost"
    }


def test_what_is_no_text_and_no_run_file_is_packed(tmp_path: Path) -> None:
    """What brings files back takes eight of them; a second visit adds to those of the first."""
    for name in ("gpu-5-kernels-a.json.gz", "gpu-5.txt", "gpu-5-kernels.jsonl", "other"):
        (tmp_path / name).write_text(name)
    (tmp_path / "gpu-2.wrong").mkdir()
    (tmp_path / "gpu-2.wrong" / "x.npz").write_text("x")
    gpu.pack(tmp_path)
    (tmp_path / "gpu-5-jax-a.json.gz").write_text("more")
    gpu.pack(tmp_path)
    gpu.pack(tmp_path)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["gpu-5-kernels.jsonl", "gpu-5.txt", "gpu-traces.tar", "other"]
    with tarfile.open(tmp_path / "gpu-traces.tar") as packed:
        names = packed.getnames()
    assert names == ["gpu-2.wrong", "gpu-2.wrong/x.npz", "gpu-5-kernels-a.json.gz", "gpu-5-jax-a.json.gz"]


def test_what_is_packed_is_in_files_that_are_not_large_and_a_broken_one_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "PACKED", 30_000)
    (tmp_path / "gpu-traces.tar").write_bytes(b"cut off")
    for letter in "ab":
        (tmp_path / f"gpu-5-kernels-{letter}.json.gz").write_bytes(bytes(20_000))
    gpu.pack(tmp_path)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["gpu-traces-2.tar", "gpu-traces-3.tar", "gpu-traces.tar"]
    assert (tmp_path / "gpu-traces.tar").read_bytes() == b"cut off"


def test_traces_are_packed_behind_each_step(tmp_path: Path, plan: Plan, modules: Callable[[str, str], None]) -> None:
    modules("traces", f"open({str(tmp_path / 'out/gpu-1-a.json.gz')!r}, 'w').write('x')")
    modules("looks", f"import os; print('there are', sorted(os.listdir({str(tmp_path / 'out')!r})))")
    plan(Step("first", ("traces",), 10.0), Step("then", ("looks",), 10.0))
    assert made("--seconds", "30", "--out", str(tmp_path / "out")) == 0
    assert "there are ['gpu-1.txt', 'gpu-traces.tar']" in words(tmp_path / "out")


def test_a_limit_from_outside_ends_it_as_an_interrupt_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(part: int, out: Path, *rest: object) -> dict[str, int]:
        (out / "gpu-1-a.json.gz").write_text("x")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        return {}

    monkeypatch.setattr(visit_steps, "take", take)
    before = signal.getsignal(signal.SIGTERM)
    assert made("--out", str(tmp_path)) == 130 and signal.getsignal(signal.SIGTERM) == before
    assert (tmp_path / "gpu-traces.tar").exists()


@pytest.mark.parametrize(
    ("out", "argument", "expected"),
    [("told", None, "told"), ("told", "other", "other"), ("", None, "gpu-out"), (None, None, "gpu-out")],
)
def test_where_the_files_go(
    out: str | None, argument: str | None, expected: str, tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if out is None:
        monkeypatch.delenv("OUT", raising=False)
    else:
        monkeypatch.setenv("OUT", str(tmp_path / out) if out else "")
    plan(Step("hello", ("this",), 10.0))
    assert made("--seconds", "20", *(["--out", argument] if argument else [])) == 0
    assert [x.name for x in tmp_path.iterdir()] == [expected]
    assert "Beautiful is better than ugly" in words(tmp_path / expected)


@pytest.mark.parametrize("how", ["a file", "below a file", "of a GPU"])
def test_a_folder_that_cannot_serve_is_one_line(
    how: str, tmp_path: Path, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is begun: what a run file of another device is resumed by measures nothing."""
    plan(Step("hello", ("this",), 10.0))
    out = {"a file": tmp_path / "file", "below a file": tmp_path / "file/x", "of a GPU": tmp_path / "gpu"}[how]
    (tmp_path / "file").touch()
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu/gpu-1.jsonl").write_text('{"facts":{"device":{"name":"cuda:0"}}}\n')
    assert made("--out", str(out)) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith(f"gpu: {out}") and "another folder" in said
    assert not (tmp_path / "gpu/gpu-1.txt").exists()


def test_without_a_part_it_does_what_fits_and_says_what_it_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(visit_steps, "LEAST", 100.0)

    def take(part: int, *rest: object) -> dict[str, int]:
        asked.append(part)
        return {"x": 0}

    monkeypatch.setattr(visit_steps, "take", take)
    assert gpu.main(["--fake", "--seconds", "50", "--out", str(tmp_path)]) == 0
    assert asked == [1]
    said = capsys.readouterr().out
    assert all(f"part {number} is left: --part {number}" in said for number in (2, 3, 4, 5))
    assert gpu.main(["--fake", "--out", str(tmp_path)]) == 0
    assert asked == [1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("home", ["writable", "of nobody", "of the system"])
def test_cupy_has_a_folder_for_what_it_compiles(
    home: str, own_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And neither it nor our state needs a home."""
    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", {"writable": str(tmp_path), "of the system": "/proc"}.get(home, ""))
    if home == "of nobody":
        monkeypatch.setattr(os.path, "expanduser", str)
    told = gpu.cached()
    assert told == ({} if home == "writable" else {"CUPY_CACHE_DIR": str(own_state / "cupy")})
    monkeypatch.delenv(state.VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    state.folder.cache_clear()
    found = state.folder()
    assert found.is_dir() and (found == tmp_path / ".cache/kernelgap") == (home == "writable")
    if home != "writable":
        found.rmdir()
