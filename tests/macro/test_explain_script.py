"""`macro explain SCRIPT`: a short process for each way that a script is written or ends.

scripts.txt holds scripts as users write them, in the ways that have been traps: behind their names words of the command
and rows that they must have, or how the command ends. One that does not import PyTorch first stands behind HEAD.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from macro.explaining import breakdown, ceilings
from macro.running import script, script_request
from macro.watching import perf
from macro.watching.recording import Recording, Watched
from reports import step
from tests import processes
from tests.conftest import Ran
from tests.golden.sections import sections

ROOT = Path(__file__).parents[2]
SCRIPTS = sections(Path(__file__).with_name("scripts.txt"))
HEAD, MARKED, FOREVER = SCRIPTS["HEAD"], SCRIPTS["MARKED"], "while True: once()\n"


def explain(folder: Path, text: str, *more: str, python: str = sys.executable, seconds: str = "2s") -> Ran:
    """Explain a script of this text, in a process of its own; nothing is left of it but run files."""
    script = folder / "train.py"
    script.write_text(text)
    before = sorted(x.name for x in folder.iterdir())
    words = [python, "-m", "macro", "explain", str(script), "--budget", seconds, "-q", "--json", "-", *more]
    ran = subprocess.run(words, cwd=ROOT, env=marked(folder), capture_output=True, text=True, check=False, timeout=240)
    after = sorted(x.name for x in folder.iterdir() if x.suffix not in (".jsonl", ".kg") and x.name != "__pycache__")
    assert after == before and not processes.left(folder)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def marked(folder: Path) -> dict[str, str]:
    return {**os.environ, processes.MARK: str(folder), "KERNELGAP_STATE": str(folder.parent / "state")}


def last(ran: Ran) -> str:
    return next(reversed(ran.err.strip().splitlines()), "")


def document(ran: Ran) -> dict[str, Any]:
    """Return the explanation that a command has written. Fails where it ended otherwise than with 0."""
    assert ran.code == 0, ran.err[-2000:]
    written: dict[str, Any] = json.loads(ran.out)
    return written


def rows(explained: dict[str, Any]) -> set[str]:
    return {cell["row"] for cell in explained["cells"]}


@pytest.mark.slow
def test_a_script_without_torch_marks_its_steps(tmp_path: Path) -> None:
    explained = document(explain(tmp_path, MARKED))
    assert explained["program"]["step"] == "with step()" and explained["step"]["a"] > 0
    if not perf.missing():
        assert "gemm" in {kind["name"] for kind in explained["kinds"]}


@pytest.mark.slow
@pytest.mark.parametrize("title", [title for title in SCRIPTS if title.startswith("exit")])
def test_what_cannot_be_watched_is_one_line(title: str, tmp_path: Path) -> None:
    end, _, line = title.partition(": ")
    if in_torch := end.endswith(" behind HEAD"):
        pytest.importorskip("torch")
    ran = explain(tmp_path, HEAD * in_torch + SCRIPTS[title], "--wait", "15s" if in_torch else "1s")
    assert (ran.code, ran.out) == (int(end.split()[1]), "") and line in last(ran), ran.err[-2000:]
    assert not in_torch or "Traceback" not in ran.err


def test_a_missing_interpreter_or_script_is_a_usage_error(tmp_path: Path) -> None:
    assert last(explain(tmp_path, "", "--python", "/no/python")).endswith("give a path, or a name on the PATH")
    ran = subprocess.run([sys.executable, "-m", "macro", "explain", "no.py"], cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (2, "macro explain: no.py: no such script\n")


@pytest.mark.slow
def test_nothing_of_ours_hides_a_scripts_own_files(tmp_path: Path) -> None:
    (tmp_path / "names.py").write_text("MINE = 5\n")
    (tmp_path / "loop.py").write_text("MINE = 6\n")
    text = "import sys, names, loop\nassert (names.MINE, loop.MINE) == (5, 6)\nassert sys.argv[1:] == ['--a', 'b']\n"
    told = explain(
        tmp_path, text + "assert __name__ == '__main__' and __file__ == sys.argv[0]\n" + MARKED, "--", "--a", "b"
    )
    assert told.code == 0, told.err


@pytest.mark.slow
@pytest.mark.parametrize("title", [title for title in SCRIPTS if "|" in title])
def test_a_script_is_explained_however_it_is_written(title: str, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text, (_, words, wanted) = SCRIPTS[title], title.split("|")
    explained = document(explain(tmp_path, text if text.startswith("import torch\n") else HEAD + text, *words.split()))
    assert {row.strip() for row in wanted.split(",")} <= rows(explained), sorted(rows(explained))
    total = sum(cell["a"] for cell in explained["cells"]) + explained["residual"]["a"]
    assert total == pytest.approx(explained["step"]["a"], rel=0.02)  # cells below 0.1 µs are left out


@pytest.mark.slow
def test_perf_rests_after_a_loaders_threads_have_ended(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if perf.missing():
        pytest.skip("no perf")
    text = HEAD + SCRIPTS["EPOCHS"]
    explained = document(explain(tmp_path, text, "--threads", "1", "-o", str(tmp_path / "run.jsonl")))
    assert explained["program"]["perf"] < 0.2  # of a core: 0.65 where it polls without pause
    assert "perf took" in "".join(explained["sentences"])


@pytest.mark.slow
def test_its_libraries_and_its_largest_calls_are_witnesses_and_what_it_prints_is_whole(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    told = explain(tmp_path, HEAD + "\nimport itertools\nfor n in itertools.count():\n    once(); print('done', n)\n")
    names = {one["name"] for one in document(told)["witnesses"]}
    assert ("products" in names) == torch.backends.mkl.is_available()
    assert any(name.startswith("net.fc") and name.endswith("gemm") for name in names), names
    numbers = [int(line.partition(" ")[2]) for line in told.err.splitlines() if line.startswith("done ")]
    assert numbers == list(range(len(numbers))) and numbers and "MKL_VERBOSE" not in told.err + told.out


@pytest.mark.slow
def test_a_script_that_fails_is_told_from_what_was_seen(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    assert "ZeroDivisionError" in document(explain(tmp_path, HEAD + SCRIPTS["FAILS"], seconds="60s"))["ended"]


@pytest.mark.parametrize(
    ("text", "step"), [("import lib", "lib:nothing"), (MARKED, "train:nothing"), (MARKED, "train:A.nothing")]
)
def test_a_step_that_is_not_there_is_a_usage_error(text: str, step: str, tmp_path: Path) -> None:
    (tmp_path / "lib.py").write_text("A = 5\n")
    told = explain(tmp_path, text, "--step", step)
    assert told.code == 2 and last(told).startswith(f"macro explain: --step {step}: ") and not told.out, told.err


@pytest.mark.slow
def test_a_script_that_is_killed_is_told_from_what_was_seen(tmp_path: Path) -> None:
    kept = tmp_path / "run.kg"
    dies = "import os\n" + MARKED + f"    if os.path.exists({str(kept)!r}): os.kill(os.getpid(), 9)\n"
    explained = document(explain(tmp_path, dies, "-o", str(kept.with_suffix(".jsonl")), seconds="60s"))
    assert explained["ended"].endswith("its process was killed by SIGKILL, e.g. out of memory")


def test_a_recording_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "run.kg").write_text("mine")
    told = explain(tmp_path / "own", MARKED, "-o", str(tmp_path / "run.jsonl"))
    assert told.code == 2 and "file exists" in last(told)
    assert (tmp_path / "run.kg").read_text() == "mine" and not (tmp_path / "run.jsonl").exists()


def test_a_script_that_fails_leaves_no_run_file(tmp_path: Path) -> None:
    assert explain(tmp_path, "1 / 0", "-o", str(tmp_path / "run.jsonl")).code == 1
    assert not list(tmp_path.glob("run.*"))


@pytest.mark.usefixtures("without_perf")
def test_without_perf_and_torch_nothing_can_be_told(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    told = explain(tmp_path / "own", MARKED)
    assert told.code != 0 and "a script without PyTorch requires perf: perf is not installed" in last(told), told.err


@pytest.mark.slow
@pytest.mark.usefixtures("without_perf")
def test_without_perf_there_are_rows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "own").mkdir()
    assert "net.fc1 forward" in rows(document(explain(tmp_path / "own", HEAD + FOREVER)))


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_seen(sent: signal.Signals, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "train.py").write_text(HEAD + FOREVER)
    words = [sys.executable, "-m", "macro", "explain", str(tmp_path / "train.py"), "--budget", "100s", "-o"]
    with subprocess.Popen(
        [*words, str(tmp_path / "run.jsonl")],
        cwd=ROOT,
        env=marked(tmp_path),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=processes.interruptible,
    ) as command:
        assert command.stderr is not None
        for line in command.stderr:
            if line.startswith("so far"):
                break
        command.send_signal(sent)
        command.communicate(timeout=120)
    assert command.returncode == 128 + sent and not processes.left(tmp_path)
    assert (tmp_path / "run.kg").exists()
    assert again(tmp_path / "run.kg")["ended"] == "interrupted"


def again(path: Path, *more: Path) -> dict[str, Any]:
    words: Sequence[str] = [sys.executable, "-m", "macro", "explain", *map(str, (path, *more)), "-q", "--json", "-"]
    found: dict[str, Any] = json.loads(
        subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    )
    return found


@pytest.mark.slow
def test_recordings_are_explained_again_and_compared(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for name, times in (("a", 1), ("b", 3)):
        folder = tmp_path / name
        folder.mkdir()
        text = HEAD.replace("self.fc2(torch.relu", "self.many(torch.relu") + FOREVER
        many = f"    def many(self, x):\n        for _ in range({times}): y = self.fc2(x)\n        return y\n"
        told = explain(
            folder, text.replace("    def forward", many + "    def forward"), "-o", str(tmp_path / f"{name}.jsonl")
        )
        assert told.code == 0, told.err
    one = again(tmp_path / "a.kg")
    assert one["step"].keys() == {"a"} and "net.fc2 forward" in rows(one)
    both = again(tmp_path / "b.kg", tmp_path / "a.kg")
    assert both["step"].keys() == {"a", "b"} and both["gap"] > 0
    largest = max((cell for cell in both["cells"]), key=lambda cell: cell["a"] - cell["b"])
    assert largest["row"].startswith("net.fc2") and largest["phase"] in ("forward", "backward")


NAMES = """
import importlib.util, kernels
suites = [x for x in ("micro", "macro", "reports") if (spec := importlib.util.find_spec(x)) and spec.origin]
raise ValueError(f"{kernels.mine}, {suites}")
"""


@pytest.mark.parametrize("more", [{}, {"PYTHONSAFEPATH": "1"}], ids=["as it is", "safe path"])
def test_names_in_a_script_are_its_own(more: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NAMES)
    (tmp_path / "kernels.py").write_text("mine = 'my kernels'\n")
    (tmp_path / "reports").mkdir()
    words = [sys.executable, "-m", "macro", "explain", "train.py", "-q"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | more
    ran = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 1
    assert "ValueError: my kernels, []" in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_interrupt_keeps_earlier_processes(
    stop: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    asked = script_request.request([str(tmp_path / "train.py"), "--runs", "3", "-q"])
    replies: list[Any] = [([Recording({}, [Watched()])], 0), stop]

    def watched(*_: object) -> tuple[Sequence[Recording], int]:
        reply = replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply  # type: ignore[no-any-return]

    monkeypatch.setattr(script, "_watched", watched)
    recordings, _, ended = script._recordings(asked, asked.outputs, [], lambda text: None)
    assert (len(recordings), ended) == (1, code)
    replies.append(stop)
    with pytest.raises(type(stop)):
        script._recordings(asked, asked.outputs, [], lambda text: None)


def test_an_interrupt_of_ceilings_leaves_them_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stopped(threads: int) -> breakdown.Ceilings:
        raise KeyboardInterrupt

    def explained(recording: Recording, took: float, measured: breakdown.Ceilings) -> breakdown.Ceilings:
        return measured

    (tmp_path / "train.py").touch()
    asked = script_request.request([str(tmp_path / "train.py"), "--kernels"])
    monkeypatch.setattr(ceilings, "measured", stopped)
    monkeypatch.setattr(breakdown, "with_sentences", explained)
    monkeypatch.setattr(step, "note", lambda x: x)
    heard = list[str]()
    notes: Any = script._notes(asked, [Recording({}, [Watched()])], 1.0, heard.append)
    assert notes == ([breakdown.Ceilings(None, None)], 130)
    assert heard[1:] == ["interrupted: explained without this machine's ceilings"]
