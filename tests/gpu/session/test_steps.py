"""Which steps a session has, in which order, and where it writes."""

from __future__ import annotations

import importlib
import os
import signal
import tarfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels import state
from micro import __main__ as every
from micro import names
from micro.command import everything
from tests.gpu.session import __main__ as gpu
from tests.gpu.session import rows, steps
from tests.gpu.session.conftest import Plan, fake, files, log
from tests.gpu.session.processes import ROOT
from tests.gpu.session.steps import Step

MOST = 12  # files of a session that whoever brings them back takes


@pytest.mark.parametrize("here", [True, False])
def test_a_session_writes_few_files(tmp_path: Path, here: bool) -> None:
    """Beside those of traces."""
    assert len(set().union(*(files(part, tmp_path, here) for part in steps.PARTS))) <= MOST


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("part", [part for part in steps.PARTS if part != 3])
def test_a_part_measures_the_device_that_is_here(tmp_path: Path, part: int, here: bool) -> None:
    words = [" ".join(step.command) for step in steps.steps(part, tmp_path, here)]
    assert any("--device cuda:0 " in x for x in words) == here
    assert any("--device fake" in x for x in words) != here


def test_parts_measure_every_useful_line_once() -> None:
    """In the order of all of them."""
    order = [part.title for part in everything.parts("fake:cuda")]
    assert [x.title for ranks in rows.RANKS.values() for x in everything.parts("fake:cuda", ranks=ranks)] == order
    assert all(everything.parts("fake:cuda", ranks=ranks) for ranks in rows.RANKS.values())
    assert rows.RANKS.keys() == steps.MEASURING.keys() == steps.LIMITS.keys()


def test_the_most_valuable_step_comes_first(tmp_path: Path) -> None:
    """The hold before all times, the front door behind it; names of kernels after what is timed."""
    modules = {part: [step.command[0] for step in steps.steps(part, tmp_path, True)] for part in steps.PARTS}
    lines, loop = "tests.gpu.session.rows", "tests.gpu.session.event_loop"
    assert modules[1] == ["pytest", lines, loop, "micro.names"]
    assert modules[2] == modules[4] == [lines, "micro.names", "pytest"]
    assert modules[3] == ["pytest"] and modules[5] == ["macro", "pytest", "macro", "macro", "macro"]
    for part in (1, 2):
        steps.run_file(tmp_path, part).touch()
    assert [step.name for step in steps.steps(3, tmp_path, True)] == ["names", "tests"]
    assert sum(step.seconds for step in steps.steps(5, tmp_path, True)[:-1]) <= steps.PARTS[5]


@pytest.mark.parametrize("here", [True, False])
def test_every_step_is_understood_and_goes_on(
    tmp_path: Path, pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    """Nothing runs: its words are parsed by its command; a run file is resumed."""
    monkeypatch.setattr(every, "measure", lambda options, ranks: 0)
    monkeypatch.setattr(names, "_named", lambda files: 0)
    monkeypatch.setattr("kernels.devices.missing", lambda device: None)
    steps.run_file(tmp_path, 1).touch()
    mains = {"tests.gpu.session.rows": rows.main, "micro.names": names.main, "tests.gpu.session.event_loop": len}
    for module, *words in (step.command for part in steps.PARTS for step in steps.steps(part, tmp_path, here)):
        assert ("-o" in words) == ("--resume" in words)
        if module == "pytest":
            pytestconfig._parser.parse(words)
        elif module == "macro":
            importlib.import_module(f"macro.{words[0]}").request(words[1:])
        else:
            assert mains[module](words) == 0


def test_in_less_time_each_step_has_its_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part in steps.PARTS:
        for half, full in zip(steps.steps(part, tmp_path, True, 0.5), steps.steps(part, tmp_path, True), strict=True):
            assert half.seconds == (full.seconds if full.spare else max(full.seconds / 2, steps.SHORTEST))
            budgets = [x[x.index("--budget") + 1 :][:1] for x in (half.command, full.command) if "--budget" in x]
            assert not budgets or 2 * float(budgets[0][0][:-1]) == float(budgets[1][0][:-1])
    shares: list[float] = []
    monkeypatch.setattr(steps, "steps", lambda part, out, here, share: shares.append(share) or ())
    for seconds in ("20", "999"):
        assert fake("--out", str(tmp_path), "--seconds", seconds) == 0
    assert shares == [pytest.approx(20 / 240, rel=0.01), 1.0]


def test_a_spare_step_is_not_missed(plan: Plan, tmp_path: Path) -> None:
    plan(Step("spare", ("this", "is", "no", "module"), 300.0, spare=True))
    assert fake("--out", str(tmp_path), "--seconds", "20") == 0
    assert "spare: not begun, 20 s are too few for it" in log(tmp_path)


def test_every_test_of_a_gpu_is_in_a_part(tmp_path: Path) -> None:
    words = [x for part in steps.PARTS for step in steps.steps(part, tmp_path, True) for x in step.command]
    assert {x for x in words if x.startswith("tests/")} == {
        f"tests/gpu/{path.name}" for path in (ROOT / "tests/gpu").glob("test_*.py") if path.stem != "test_lost"
    }


def test_traces_and_evidence_are_packed(tmp_path: Path) -> None:
    """Whoever brings files back takes few; a second session adds to those of the first."""
    for name in ("gpu-5-kernels-a.json.gz", "gpu-5.txt", "gpu-5-kernels.jsonl", "other"):
        (tmp_path / name).write_text(name)
    (tmp_path / "gpu-2.wrong").mkdir()
    (tmp_path / "gpu-2.wrong" / "x.npz").write_text("x")
    gpu.pack(tmp_path)
    (tmp_path / "gpu-5-jax-a.json.gz").write_text("more")
    gpu.pack(tmp_path)
    gpu.pack(tmp_path)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["gpu-5-kernels.jsonl", "gpu-5.txt", "gpu-traces.tar", "other"]
    with tarfile.open(tmp_path / "gpu-traces.tar") as archive:
        names = archive.getnames()
    assert names == ["gpu-2.wrong", "gpu-2.wrong/x.npz", "gpu-5-kernels-a.json.gz", "gpu-5-jax-a.json.gz"]


def test_a_full_or_broken_archive_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "PACKED", 40_000)
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
    assert fake("--seconds", "30", "--out", str(tmp_path / "out")) == 0
    assert "there are ['gpu-1.txt', 'gpu-traces.tar']" in log(tmp_path / "out")


def test_a_limit_from_outside_ends_it_as_an_interrupt_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def take(part: int, out: Path, *rest: object) -> dict[str, int]:
        (out / "gpu-1-a.json.gz").write_text("x")
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(10)
        return {}

    monkeypatch.setattr(steps, "take", take)
    before = signal.getsignal(signal.SIGTERM)
    assert fake("--out", str(tmp_path)) == 130 and signal.getsignal(signal.SIGTERM) == before
    assert (tmp_path / "gpu-traces.tar").exists()


@pytest.mark.parametrize(
    ("out", "argument", "expected"),
    [("variable", None, "variable"), ("variable", "other", "other"), ("", None, "gpu-out"), (None, None, "gpu-out")],
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
    assert fake("--seconds", "20", *(["--out", argument] if argument else [])) == 0
    assert [x.name for x in tmp_path.iterdir()] == [expected]
    assert "Beautiful is better than ugly" in log(tmp_path / expected)


@pytest.mark.parametrize("how", ["a file", "below a file", "of a GPU"])
def test_a_folder_that_cannot_serve_is_one_line(
    how: str, tmp_path: Path, plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is begun: to resume a run file of another device measures nothing."""
    plan(Step("hello", ("this",), 10.0))
    out = {"a file": tmp_path / "file", "below a file": tmp_path / "file/x", "of a GPU": tmp_path / "gpu"}[how]
    (tmp_path / "file").touch()
    (tmp_path / "gpu").mkdir()
    (tmp_path / "gpu/gpu-1.jsonl").write_text('{"facts":{"device":{"name":"cuda:0"}}}\n')
    assert fake("--out", str(out)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and err.startswith(f"gpu: {out}") and "another folder" in err
    assert not (tmp_path / "gpu/gpu-1.txt").exists()


def test_without_a_part_it_does_what_fits_and_names_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(steps, "LEAST", 100.0)
    monkeypatch.setattr(steps, "take", lambda part, *rest: taken.append(part) or {"x": 0})
    assert gpu.main(["--fake", "--seconds", "50", "--out", str(tmp_path)]) == 0
    assert taken == [1]
    out = capsys.readouterr().out
    assert all(f"part {number} is left: --part {number}" in out for number in (2, 3, 4, 5))
    assert gpu.main(["--fake", "--out", str(tmp_path)]) == 0
    assert taken == [1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("home", ["writable", "of nobody", "of the system"])
def test_cupy_has_a_folder_for_what_it_compiles(
    home: str, own_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither it nor our state needs a home."""
    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    monkeypatch.setenv("HOME", {"writable": str(tmp_path), "of the system": "/proc"}.get(home, ""))
    if home == "of nobody":
        monkeypatch.setattr(os.path, "expanduser", str)
    assert gpu.cupy_cache() == ({} if home == "writable" else {"CUPY_CACHE_DIR": str(own_state / "cupy")})
    monkeypatch.delenv(state.VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    state.folder.cache_clear()
    folder = state.folder()
    assert folder.is_dir() and (folder == tmp_path / ".cache/kernelgap") == (home == "writable")
    if home != "writable":
        folder.rmdir()
