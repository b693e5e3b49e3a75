"""The visit to a GPU as a whole, on the fake device: its files, its limits, and what a kill leaves."""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from kernels import state
from kernels.libs import cuda
from micro import gpu
from micro.probing import own_kernels
from micro.visit import preflight
from micro.visit import steps as visit_steps
from micro.visit.steps import Step, steps
from reports import store
from tests.micro.command.test_everything import PROGRAM
from tests.processes import MARK, marked

ROOT = Path(__file__).parents[2]
MOST = 16 << 20  # bytes of a file that comes back

Plan = Callable[..., None]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """`modules(name, text)`: a module that a step can run."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")
    return lambda name, text: (folder / f"{name}.py").write_text(text) and None


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """`plan(steps)`: in the place of those of a visit."""
    monkeypatch.setattr(visit_steps, "GRACE", 0.5)
    return lambda *made: monkeypatch.setattr(visit_steps, "steps", lambda part, out, here: made)


def alive(pid: int) -> bool:
    """Whether it still runs after five seconds; one that nobody waits for may stay as a name."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.02)
    return True


def words(out: Path, name: str = "gpu-1.txt") -> str:
    return (out / name).read_text()


def made(*given: str) -> int:
    return gpu.main(["--fake", "--part", "1", *given])


# What it asks, and where it writes


def files(part: int, out: Path, here: bool) -> set[str]:
    found = {f"gpu-{part}.txt"}
    for step in steps(part, out, here):
        for option, value in zip(step.command, step.command[1:], strict=False):
            if option == "-o":
                assert Path(value).parent == out
                found.add(Path(value).name)
    return found


@pytest.mark.parametrize("here", [True, False])
def test_four_files_a_part_and_eight_in_all(tmp_path: Path, here: bool) -> None:
    found = [files(part, tmp_path, here) for part in visit_steps.PARTS]
    assert max(map(len, found)) <= 4 and len(set().union(*found)) <= 8


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("part", visit_steps.PARTS)
def test_the_device_is_the_one_that_is_here(tmp_path: Path, part: int, here: bool) -> None:
    told = [" ".join(step.command) for step in steps(part, tmp_path, here)]
    if part < 3:
        assert any(f"--device cuda:0 --part {part}" in x for x in told) == here
        assert any("--device fake:cuda --small" in x for x in told) != here
    assert any(x.endswith(" --fake") for x in told) == (not here and part != 2)


def test_what_is_worth_most_comes_first(tmp_path: Path) -> None:
    """The front door behind a check of the hold alone; names behind all that is timed; of a part 1 of 240 s all steps
    fit."""
    first, second, third = ([" ".join(step.command[:2]) for step in steps(part, tmp_path, True)] for part in (1, 2, 3))
    assert first[:2] == ["micro.probes --only", "micro all"]
    assert second[:2] == ["pytest --tb=line", "micro all"]
    assert third == ["micro.probes --part"]
    for found in (first, second):
        timed = max(i for i, x in enumerate(found) if x == "micro all")
        assert min(i for i, x in enumerate(found) if x.startswith("micro.names")) > timed
    for part in (1, 2):
        visit_steps.run_file(tmp_path, part).touch()
    assert [step.name for step in steps(3, tmp_path, True)] == ["names", "probes"]


def test_the_tests_say_why_each_failed_and_warnings_are_none(tmp_path: Path) -> None:
    (tests,) = (step for step in steps(2, tmp_path, True) if step.name == "tests")
    assert tests.stop == signal.SIGINT  # pytest then sums up
    assert {"--tb=line", "-rfE", "default"} <= set(tests.command)
    assert {x for x in tests.command if x.startswith("tests/")} == {
        f"tests/gpu/{path.name}" for path in (ROOT / "tests/gpu").glob("test_*.py") if path.stem != "test_lost"
    }


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

    def take(part: int, out: Path, here: bool, seconds: float, say: object, log: object) -> dict[str, int]:
        asked.append(part)
        return {"x": 0}

    monkeypatch.setattr(visit_steps, "take", take)
    assert gpu.main(["--fake", "--seconds", "50", "--out", str(tmp_path)]) == 0
    assert asked == [1]
    said = capsys.readouterr().out
    assert "part 2 is left: --part 2" in said and "part 3 is left: --part 3" in said
    assert gpu.main(["--fake", "--out", str(tmp_path)]) == 0
    assert asked == [1, 1, 2, 3]


# A driver without the rest


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    """A folder with a library by the name of NVIDIA's driver, in which nothing is."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path / "driver"
    folder.mkdir()
    source = folder / "x.c"
    source.write_text("int cuInit(unsigned flags) { return 100; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", folder / cuda.DRIVER], check=True)
    return folder


@pytest.mark.skipif(cuda.driver_here(), reason="a driver is here")
@pytest.mark.parametrize("how", ["module", "make"])
def test_a_driver_without_cupy_is_one_line(how: str, driver: Path, tmp_path: Path) -> None:
    """Nor is the fake device measured in its place, unless that is asked for."""
    if how == "make" and shutil.which("make") is None:
        pytest.skip("no make")
    command = {
        "module": [sys.executable, "-m", "micro.gpu", "--part", "1", "--out", str(tmp_path / "out")],
        "make": ["make", "-s", "gpu", "PART=1", f"OUT={tmp_path / 'out'}", f"PYTHON={sys.executable}"],
    }[how]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"LD_LIBRARY_PATH": str(driver)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lines = [line for line in ran.stderr.splitlines() if not line.startswith("make")]
    assert ran.returncode == 2 and len(lines) == 1, ran
    assert lines[0].startswith("gpu: an NVIDIA driver is here, cupy not: ") and "--fake" in lines[0]
    assert not (tmp_path / "out").exists()


def test_what_is_needed_and_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "package", lambda name: name if name in ("cupy", "msgspec") else None)
    assert (preflight.missing() or "").startswith("an NVIDIA driver is here, msgspec, cupy not: ")
    monkeypatch.setattr(cuda, "package", lambda name: None)
    monkeypatch.setattr(preflight, "driver", lambda: "it counts no GPU")
    assert preflight.missing() == "it counts no GPU; --fake tests without a GPU"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return 100;", "finds no GPU (cuInit answers 100)"),
        ("for (;;) sleep(1);", "does not answer within 3 s"),
        ("abort();", "cannot be asked (killed by SIGABRT)"),
    ],
)
def test_a_driver_that_does_not_serve(body: str, reason: str, driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = driver / "x.c"
    source.write_text(f"#include <stdlib.h>\n#include <unistd.h>\nint cuInit(unsigned flags) {{ {body} return 0; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", driver / cuda.DRIVER], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    told = preflight.driver(3.0) or ""
    assert told.startswith("the NVIDIA driver is here and ") and reason in told


def test_every_package_is_asked_and_what_it_says_is_told(
    monkeypatch: pytest.MonkeyPatch, modules: Callable[[str, str], None]
) -> None:
    """One that works, one that raises, one that never answers, one that crashes."""
    text = "import sys, os, time, json\n{}\nprint(json.dumps(dict(version='1')))"
    for name, body in {"works": "", "raises": "1 // 0", "hangs": "time.sleep(60)", "dies": "os.abort()"}.items():
        modules(name, text.format(body))
    monkeypatch.setattr(preflight, "CHECKS", dict.fromkeys(("works", "raises", "hangs", "dies"), dict))
    monkeypatch.setattr(preflight, "asked", lambda name: [sys.executable, "-m", name])
    said: list[str] = []
    told = preflight.check(said.append, 3.0)
    assert told["works"].facts == {"version": "1"} and told["works"].reason is None
    assert told["raises"].reason == "exit code 1: ZeroDivisionError: integer division or modulo by zero"
    assert (told["hangs"].reason or "").startswith("no answer within")
    assert (told["dies"].reason or "").startswith("killed by SIGABRT: ") and len(said) == 4


WRAPS = """
try:
    raise OSError("libcudart.so.13 is not here")
except OSError as error:
    raise ImportError("=====\\nFailed to import\\n=====") from error
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("import atexit; atexit.register(print, 'goodbye')", None),
        ("import sys; sys.stderr.write('x' * (1 << 20))", None),
        ("import atexit, os; atexit.register(os.abort)", None),
        ("import os; os._exit(0)", "exit code 0: without a word"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("raise RuntimeError('first\\nsecond')", "RuntimeError: first"),
        (WRAPS, "OSError: libcudart.so.13 is not here"),
    ],
)
def test_a_package_may_say_what_it_likes(
    body: str, reason: str | None, monkeypatch: pytest.MonkeyPatch, modules: Callable[[str, str], None]
) -> None:
    """More than a pipe holds, or at its exit, or nothing: no preflight ends by it, and it says why."""
    modules("pycuda", body)
    monkeypatch.setattr(preflight, "CHECKS", {"pycuda": dict})
    assert preflight.check(lambda line: None, 20.0)["pycuda"].reason == reason


@pytest.mark.parametrize(("arch", "hopper"), [("sm_80", None), ("sm_90", "sm_90a"), ("sm_100", None)])
def test_a_file_for_one_architecture_is_compiled_for_it_alone(arch: str, hopper: str | None) -> None:
    found = {path.stem: own for path, own in own_kernels.sources(arch).items()}
    assert found.pop("wgmma", None) == hopper
    assert len(found) > 5 and set(found.values()) == {arch}


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


# The Makefile's recipe


def wheel(package: str, folder: Path) -> Path:
    """A wheel of what is installed, as `make wheels` would have brought it."""
    found = importlib.metadata.distribution(package)
    tag = next(x for x in (found.read_text("WHEEL") or "").splitlines() if x.startswith("Tag:")).split()[1]
    folder.mkdir(exist_ok=True)
    target = folder / f"{package}-{found.version}-{tag}.whl"
    with zipfile.ZipFile(target, "w") as made:
        for file in found.files or []:
            if ".." not in file.parts and file.suffix != ".pyc":
                made.write(str(file.locate()), str(file))
    return target


def test_the_recipe_in_an_environment_within_an_environment(tmp_path: Path) -> None:
    """As on a GPU's machine: python3 is of an environment made by another one's, has all packages but one, which is
    carried as a wheel, beside one that fits no Python of today; there is no network. No environment is made: it
    would see none of them."""
    if shutil.which("make") is None or shutil.which("git") is None:
        pytest.skip("no make or no git")
    outer, inner = tmp_path / "outer", tmp_path / "inner"
    venv.create(outer)
    subprocess.run([outer / "bin/python", "-m", "venv", inner], check=True)
    python = inner / "bin/python"
    site = next((inner / "lib").glob("python*/site-packages"))
    have = Path(pytest.__file__).parents[1]
    for path in have.iterdir():
        mine = path.name.startswith(("msgspec", "__editable__", "kernelgap", "_virtualenv"))
        if not mine and not (site / path.name).exists():
            (site / path.name).symlink_to(path)
    clone = tmp_path / "the clone"
    listed = ["git", "ls-files", "-co", "--exclude-standard"]
    tracked = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in tracked.stdout.splitlines():
        if (ROOT / name).exists() and name.partition("/")[0] in ("kernels", "micro", "reports", "Makefile", "setup.py"):
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, clone / name)
    out = tmp_path / "out"
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    environment |= {"PIP_NO_INDEX": "1", "KERNELGAP_STATE": str(tmp_path / "state"), "OUT": str(out)}

    def make() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", "-s", "gpu", "PART=1", "FAKE=1", f"PYTHON={python}"],
            cwd=clone,
            env=environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    without = make()
    assert without.returncode == 2 and "msgspec" in without.stderr + without.stdout, without
    msgspec = wheel("msgspec", clone / "wheels")
    shutil.copy(msgspec, msgspec.with_name("msgspec-0.1-cp27-cp27m-win32.whl"))
    (clone / ".site/rich").mkdir(parents=True)  # of another Python, from before
    ran = make()
    assert "gpu: wheels/msgspec-0.1-cp27-cp27m-win32.whl is not for this Python" in ran.stdout
    assert not (clone / ".site/rich").exists()
    assert ran.returncode == 0, (ran, words(out)[-3000:])
    assert (clone / ".site/msgspec").is_dir() and not list(clone.glob(".venv*"))
    assert {contest.contest.partition("/")[0] for contest in store.read(out / "gpu-1.jsonl").contests} >= {"strategy"}


# Limits

HANGS = """
import pathlib, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
print("begun", child.pid)
time.sleep(600)
"""
ENDS_WHEN_TOLD = """
import signal, subprocess, sys, time
deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", deaf])
time.sleep(0.5)
signal.signal(signal.SIGTERM, lambda *given: (print("what I have"), sys.exit(3)))
print("begun", child.pid)
time.sleep(600)
"""


def test_a_step_that_hangs_is_ended_and_the_later_ones_run(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """With what it started, which hears no SIGTERM."""
    modules("hangs", HANGS)
    modules("hello", "print('hello')")
    plan(
        Step("first", ("hello",), 10.0), Step("stuck", ("hangs",), 2.5, signal.SIGTERM), Step("then", ("hello",), 10.0)
    )
    assert made("--seconds", "30", "--out", str(tmp_path)) == 1
    told = words(tmp_path).splitlines()
    (begun,) = (line.split() for line in told if line.startswith("begun"))
    assert not alive(int(begun[1])) and told.count("hello") == 2
    codes = [line.partition(" after ")[0] for line in told if "exit code" in line]
    assert codes == [f"gpu: {name}: exit code {code}" for name, code in (("first", 0), ("stuck", 124), ("then", 0))]
    said = capsys.readouterr().out
    assert "gpu: stuck: exit code 124" in said and "not well: stuck of part 1" in said


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_step_is_told_to_end_before_it_is_made_to(
    stop: signal.Signals,
    tmp_path: Path,
    plan: Plan,
    modules: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its own signal, also where our caller ignores that one."""
    modules("ends", ENDS_WHEN_TOLD.replace("SIGTERM", stop.name))
    plan(Step("long", ("ends",), 2.5, stop))
    monkeypatch.setattr(visit_steps, "GRACE", 5.0)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert made("--seconds", "20", "--out", str(tmp_path)) == 1
    finally:
        signal.signal(signal.SIGINT, before)
    (begun,) = (line.split() for line in words(tmp_path).splitlines() if line.startswith("begun"))
    assert "what I have" in words(tmp_path)
    assert not alive(int(begun[1]))  # what it left behind


def test_a_step_has_its_limit_then_a_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    sent: list[int] = []

    class Stuck:
        pid = 1 << 30  # nobody's

        def wait(self, patience: float) -> int:
            waited.append(patience)
            raise subprocess.TimeoutExpired("x", patience)

        def poll(self) -> None:
            return None

    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(number))
    stuck: Any = Stuck()
    assert visit_steps._ended(stuck, 7.0, signal.SIGINT) == 124
    assert waited == [7.0, visit_steps.GRACE, visit_steps.GRACE / 2, visit_steps.GRACE]
    assert sent == [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL]


def test_a_step_that_fails_costs_the_exit_code_alone(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None]
) -> None:
    modules("fails", "import sys; sys.stderr.write('it broke\\n'); sys.exit(5)")
    modules("hello", "print('hello')")
    plan(Step("bad", ("fails",), 10.0), Step("good", ("hello",), 10.0))
    assert made("--seconds", "20", "--out", str(tmp_path)) == 1
    told = words(tmp_path)
    assert "hello\n" in told and "it broke" in told and "bad: exit code 5" in told


def test_a_log_stays_below_its_size(
    tmp_path: Path, plan: Plan, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a step that fills it the first words are kept, and what comes after it is told."""
    monkeypatch.setattr(visit_steps, "ROOM", 100_000)
    modules("talks", "print('first'); print('x' * 1_000_000)")
    modules("hello", "print('hello')")
    plan(Step("huge", ("talks",), 10.0), Step("good", ("hello",), 10.0))
    assert made("--seconds", "40", "--out", str(tmp_path)) == 0
    told = words(tmp_path)
    assert len(told) < 100_000 and "first\n" in told and "is left out" in told
    assert "\nhello\n" in told and "good: exit code 0" in told


def test_probes_know_when_to_stop(tmp_path: Path, plan: Plan, modules: Callable[[str, str], None]) -> None:
    """Earlier than they are made to."""
    modules("says", "import sys; print('said', *sys.argv[1:])")
    plan(Step("probes", ("says", "x"), 10.0, timed=True), Step("other", ("says", "y"), 10.0))
    assert made("--seconds", "40", "--out", str(tmp_path)) == 0
    first, second = (line.split() for line in words(tmp_path).splitlines() if line.startswith("said"))
    assert first[1:3] == ["x", "--seconds"] and 0 < float(first[3]) <= 10
    assert second == ["said", "y"]


# The real steps, in too little time


def whole(out: Path) -> None:
    """Every line of every file of records is one."""
    for path in out.glob("*.jsonl"):
        text = path.read_bytes()
        assert text.endswith(b"\n") or not text, path
        for line in text.splitlines():
            json.loads(line)


def test_a_visit_in_too_little_time(tmp_path: Path) -> None:
    """Of all three parts: what was begun is ended, and told."""
    out = tmp_path / "out"
    environment = os.environ | {"OUT": str(out), "KERNELGAP_STATE": str(tmp_path / "state"), MARK: str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-m", "micro.gpu", "--fake", "--seconds", "12"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode in (0, 1) and "Traceback" not in ran.stderr, ran.stderr
    found = {x.name: x.stat().st_size for x in out.iterdir()}
    assert "gpu-1.txt" in found and set(found) <= set().union(*(files(part, out, False) for part in visit_steps.PARTS))
    assert max(found.values()) < MOST
    assert "hold: exit code " in ran.stdout and "part 3 is left" in ran.stdout
    whole(out)
    assert not marked(tmp_path)


# Killed

VISIT = """
import sys
from micro import gpu
from micro.visit import steps
from micro.visit.steps import Step


def few(part, out, here):
    file = str(out / "gpu-1.jsonl")
    words = ("few", "all", "--device", "fake:cuda", "--small", "--budget", "1s", "-o", file, "--resume")
    asked = ("micro.probes", "-o", str(out / "answers.jsonl"), "--fake", "--only", "versions")
    return Step("benchmarks", words, 90.0), Step("probes", asked, 20.0)


steps.steps = few
sys.exit(gpu.main(["--fake", "--part", "1", "--seconds", "100"]))
"""


@pytest.fixture
def visit(
    tmp_path: Path, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """`visit()`: a visit in a process of its own, of few benchmarks and one probe."""
    modules("few", PROGRAM)
    for name, value in {"OUT": "out", "KERNELGAP_STATE": "state", MARK: ""}.items():
        monkeypatch.setenv(name, str(tmp_path / value).rstrip("/"))
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        running.append(
            subprocess.Popen([sys.executable, "-c", VISIT], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.communicate()
    for left in marked(tmp_path):
        left.kill()


def gone(folder: Path) -> bool:
    """Whether all processes of a test end within ten seconds."""
    end = time.monotonic() + 10
    while marked(folder) and time.monotonic() < end:
        time.sleep(0.02)
    return not marked(folder)


def test_killed_at_random_moments_it_leaves_whole_lines_and_goes_on(
    visit: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """What it started dies with it: the next visit writes to the same files."""
    out, rng = tmp_path / "out", random.Random(5)
    file, before = out / "gpu-1.jsonl", b""
    for _ in range(3):
        process = visit()
        while process.poll() is None and (not file.exists() or file.stat().st_size <= len(before)):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert gone(tmp_path)
        whole(out)
        assert file.read_bytes().startswith(before)
        before = file.read_bytes()
    process = visit()
    _, err = process.communicate(timeout=100)
    assert process.returncode == 0, (err, words(out))
    whole(out)
    names = [x.contest for x in store.read(file).contests]
    assert len(set(names)) == len(names) and file.read_bytes().startswith(before)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_what_it_started_ends_with_it(
    how: signal.Signals, tmp_path: Path, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    modules("waits", "import time; print('begun'); time.sleep(600)")
    out = str(tmp_path / "out")
    program = (
        "from micro import gpu; from micro.visit import steps\n"
        "steps.steps = lambda *given: (steps.Step('x', ('waits',), 99.0),)\n"
        f"raise SystemExit(gpu.main(['--fake', '--part', '1', '--out', {out!r}]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    begun = tmp_path / "out" / "gpu-1.txt"
    while process.poll() is None and not (begun.exists() and "begun" in begun.read_text()):
        time.sleep(0.01)
    assert len(marked(tmp_path)) == 2
    process.send_signal(how)
    _, err = process.communicate()
    if how == signal.SIGINT:
        assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err
    ended = gone(tmp_path)
    for left in marked(tmp_path):
        left.kill()
    assert ended
