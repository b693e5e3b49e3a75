"""Checks before a session, and `make gpu` in an environment within an environment."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.libs import cuda
from reports import store
from tests.gpu.session import preflight
from tests.gpu.session.conftest import log
from tests.gpu.session.processes import ROOT


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


@pytest.mark.slow
@pytest.mark.skipif(cuda.driver_here(), reason="a driver is here")
@pytest.mark.parametrize("how", ["module", "make"])
def test_a_driver_without_cupy_is_one_line(how: str, driver: Path, tmp_path: Path) -> None:
    """Nor is the fake device measured in its place, unless that is asked for."""
    if how == "make" and shutil.which("make") is None:
        pytest.skip("no make")
    command = {
        "module": [sys.executable, "-m", "tests.gpu.session", "--part", "1", "--out", str(tmp_path / "out")],
        "make": ["make", "-s", "gpu", "PART=1", f"OUT={tmp_path / 'out'}", f"PYTHON={sys.executable}"],
    }[how]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"LD_LIBRARY_PATH": str(driver)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    lines = [line for line in ran.stderr.splitlines() if not line.startswith("make")]
    assert ran.returncode == 2 and len(lines) == 1, ran
    assert lines[0].startswith("gpu: an NVIDIA driver is installed, cupy not: ") and "--fake" in lines[0]
    assert not (tmp_path / "out").exists()


def test_what_is_needed_and_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "package", lambda name: name if name in ("cupy", "msgspec") else None)
    assert (preflight.missing() or "").startswith("an NVIDIA driver is installed, msgspec, cupy not: ")
    monkeypatch.setattr(cuda, "package", lambda name: None)
    monkeypatch.setattr(preflight, "driver", lambda: "it counts no GPU")
    assert preflight.missing() == "it counts no GPU; --fake tests without a GPU"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("return 100;", "finds no GPU (cuInit returned 100)"),
        ("for (;;) sleep(1);", "does not answer within 2 s"),
        ("abort();", "does not answer (killed by SIGABRT)"),
    ],
)
def test_a_driver_that_does_not_serve(body: str, reason: str, driver: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = driver / "x.c"
    source.write_text(f"#include <stdlib.h>\n#include <unistd.h>\nint cuInit(unsigned flags) {{ {body} return 0; }}\n")
    subprocess.run(["cc", "-shared", "-fPIC", source, "-o", driver / cuda.DRIVER], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    text = preflight.driver(2.0 if "for" in body else 60.0) or ""
    assert text.startswith("the NVIDIA driver is installed but ") and reason in text


@pytest.mark.slow
def test_every_package_has_its_outcome(monkeypatch: pytest.MonkeyPatch, modules: Callable[[str, str], None]) -> None:
    """Whether it works, raises, never answers or crashes."""
    text = "import sys, os, time, json\n{}\nprint(json.dumps(dict(version='1')))"
    for name, body in {"works": "", "raises": "1 // 0", "hangs": "time.sleep(60)", "dies": "os.abort()"}.items():
        modules(name, text.format(body))
    monkeypatch.setattr(preflight, "CHECKS", dict.fromkeys(("works", "raises", "hangs", "dies"), dict))
    monkeypatch.setattr(preflight, "command", lambda name: [sys.executable, "-m", name])
    lines: list[str] = []
    outcomes = preflight.check(lines.append, 6.0)
    assert outcomes["works"].facts == {"version": "1"} and outcomes["works"].reason is None
    assert outcomes["raises"].reason == "exit code 1: ZeroDivisionError: integer division or modulo by zero"
    assert (outcomes["hangs"].reason or "").startswith("no answer within")
    assert (outcomes["dies"].reason or "").startswith("killed by SIGABRT: ") and len(lines) == 4


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


def wheel(package: str, folder: Path) -> Path:
    """Make a wheel of what is installed, as `make wheels` would have brought it."""
    distribution = importlib.metadata.distribution(package)
    tag = next(x for x in (distribution.read_text("WHEEL") or "").splitlines() if x.startswith("Tag:")).split()[1]
    folder.mkdir(exist_ok=True)
    target = folder / f"{package}-{distribution.version}-{tag}.whl"
    with zipfile.ZipFile(target, "w") as archive:
        for file in distribution.files or []:
            if ".." not in file.parts and file.suffix != ".pyc":
                archive.write(str(file.locate()), str(file))
    return target


@pytest.mark.slow
def test_the_recipe_in_an_environment_within_an_environment(tmp_path: Path) -> None:
    """Run the recipe as a GPU's machine does: without a network, in an environment made by another one's python3.

    It has all packages but one, which is carried as a wheel, beside a wheel that fits no Python of today. No
    environment is made: it would see none of these packages."""
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
        if (ROOT / name).exists() and not name.startswith(("docs/", "reports/reference/")):
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
            timeout=900,
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
    assert ran.returncode == 0, (ran, log(out)[-3000:])
    assert (clone / ".site/msgspec").is_dir() and not list(clone.glob(".venv*"))
    assert {contest.contest.partition("/")[0] for contest in store.read(out / "gpu-1.jsonl").contests} >= {"strategy"}
