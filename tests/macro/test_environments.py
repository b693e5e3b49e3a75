"""Environments from recipes: what is written in them, which Python is taken, what a failed creation leaves."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.errors import Unavailable, UsageError
from macro import env, frameworks
from macro.processes import environments, stub

KEYS = {"environment", "python", "packages", "before", "options", "index", "stubs", "variables", "megabytes", "needs"}

# A Python of no version in particular: it says it is VERSION, makes environments, and its pip does as told.
FAKE = """#!{python}
import os, pathlib, shutil, sys
words = sys.argv[1:]
if words[:1] == ["-c"]:
    print("{version}")
    sys.exit({lacks})
if words[:2] == ["-m", "venv"]:
    place = pathlib.Path(words[2], "bin")
    place.mkdir(parents=True)
    shutil.copy(__file__, place / "python")
    sys.exit(0)
if words[:3] == ["-m", "pip", "install"]:
    pathlib.Path("{journal}").open("a").write(" ".join(words) + chr(10))
    print({said!r})
    sys.exit({code})
if words[:3] == ["-m", "pip", "list"]:
    print("thing==1.0")
    sys.exit(0)
os.execv("{python}", ["{python}", *words])
"""
ADAPTER = '''"""A framework that is no good."""
ROWS = {"thing": {}, "thing-twice": {"twice": True}}
RECIPE = {"environment": "things", "python": "3.99", "packages": ["thing==1.0"], "megabytes": 1}


def available():
    return "its library is cracked"
'''


@pytest.fixture
def fake(own_state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """One framework of two rows, and a Python 3.99 whose pip ends as told; the journal of its calls."""
    adapters = tmp_path / "adapters"
    adapters.mkdir()
    (adapters / "thing.py").write_text(ADAPTER)
    monkeypatch.setattr(frameworks, "HERE", adapters)

    def make(code: int = 0, said: str = "", lacks: int = 0) -> Path:
        path, journal = tmp_path / "python3.99", tmp_path / "journal"
        facts = {"python": sys.executable, "version": "3.99", "journal": journal}
        path.write_text(FAKE.format(**facts, code=code, said=said, lacks=lacks))
        path.chmod(0o755)
        monkeypatch.setenv("PYTHON3_99", str(path))
        return journal

    return make


def left() -> list[str]:
    """What lies in the folder of environments, but for locks."""
    return sorted(x.name for x in frameworks.home().glob("*") if x.suffix != ".lock")


@pytest.mark.parametrize("environment", environments.every().values(), ids=lambda x: x.name)
def test_a_recipe_is_well_formed(environment: environments.Environment) -> None:
    recipe = environment.recipe
    assert set(recipe) <= KEYS
    assert recipe["python"].startswith("3.") and recipe["megabytes"] > 0
    assert all("==" in package for package in recipe["packages"]), "a pin of each"
    assert all(set(packages) <= set(recipe["packages"]) for packages in recipe.get("index", {}).values())
    assert set(recipe.get("needs", {})) <= {row.name for row in environment.rows}


def test_every_row_has_an_environment_or_runs_in_the_suites_own() -> None:
    inside = {row.name for environment in environments.every().values() for row in environment.rows}
    for name in set(frameworks.names()) - inside:
        with pytest.raises(UsageError, match="nothing to create"):
            environments.named(name)
    assert environments.named("tensorflow-xla") == environments.named("tensorflow")
    with pytest.raises(UsageError, match="choose from"):
        environments.named("no-such")


def test_an_interpreter_is_tried_before_it_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, script in (("path", "exit 127"), ("pyenv/versions/3.99.2/bin", "echo 3.99")):
        place = tmp_path / name / "python3.99"
        place.parent.mkdir(parents=True)
        place.write_text(f"#!/bin/sh\n{script}\n")
        place.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "path"), prepend=os.pathsep)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert environments.interpreter("3.99") == tmp_path / "pyenv/versions/3.99.2/bin/python3.99"
    monkeypatch.setenv("PYTHON3_99", sys.executable)
    with pytest.raises(UsageError, match=r"is Python 3.*, not 3\.99"):
        environments.interpreter("3.99")


def test_a_python_that_is_nowhere_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Unavailable, match=r"Python 3\.98 not found: pyenv install 3\.98, or set PYTHON3_98="):
        environments.interpreter("3.98")


def test_the_suites_own_version_is_there() -> None:
    version = "{}.{}".format(*sys.version_info[:2])
    assert environments.refused(environments.interpreter(version), version) is None


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("ERROR: No matching distribution found for thing==1.0", "no build of thing==1.0 for Python 3.99"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        (
            "WARNING: NewConnectionError\nERROR: No matching distribution found for thing==1.0 (from versions: none)",
            "cannot reach a package index: ",
        ),
        ("Collecting thing\nERROR: thing is cracked", "pip fails: ERROR: thing is cracked"),
    ],
)
def test_a_creation_that_fails_leaves_nothing_and_says_why(
    fake: Callable[..., Path], capsys: pytest.CaptureFixture[str], said: str, expected: str
) -> None:
    fake(code=1, said=said)
    assert env.main(["create", "thing", "-q"]) == 1
    told = capsys.readouterr().out
    assert told.startswith("things: not created: ") and expected in told and told.count("\n") == 1
    assert left() == []


def test_a_python_without_venv_is_said(fake: Callable[..., Path]) -> None:
    fake(lacks=1)
    with pytest.raises(UsageError, match="has no venv or ensurepip"):
        env.main(["create", "things", "-q"])
    assert left() == []


def test_a_framework_that_is_broken_says_so_in_its_own_words(
    fake: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    fake()
    assert env.main(["create", "thing", "-q"]) == 1
    assert env.main(["list"]) == 1
    told = capsys.readouterr().out
    assert told.count("does not run: its library is cracked") == 4  # two rows, created and listed
    assert left() == ["things"]
    assert env.main(["list", "--try"]) == 1 and "things: testing thing\n" in capsys.readouterr().err
    with pytest.raises(UsageError, match="something in it does not run: python -m macro env remove things"):
        env.main(["create", "thing", "-q"])
    assert env.main(["remove", "thing-twice"]) == 0
    assert left() == []


def test_wheels_of_a_folder_and_of_no_index(
    fake: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = fake()
    with pytest.raises(UsageError, match="name a folder of wheels"):
        env.main(["create", "thing", "-q", "--wheels", str(tmp_path / "none")])
    env.main(["create", "thing", "-q", "--wheels", str(tmp_path)])
    assert f"--no-index --find-links {tmp_path} thing==1.0" in journal.read_text()


def test_a_list_of_nothing(fake: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert env.main(["list"]) == 0
    assert "not made (about 1 MB): python -m macro env create things" in capsys.readouterr().out
    with pytest.raises(UsageError, match="no such environment"):
        env.main(["remove", "thing"])


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", "{}", '{"recipe": "x"}'])
def test_a_folder_whose_record_is_none_of_ours_is_no_environment(
    fake: Callable[..., Path], capsys: pytest.CaptureFixture[str], text: str
) -> None:
    folder = frameworks.home() / "things"
    folder.mkdir(parents=True)
    (folder / "environment.json").write_text(text)
    assert env.main(["list"]) == 0
    assert "not made (about 1 MB), and its folder holds no environment: python -m macro" in capsys.readouterr().out
    with pytest.raises(UsageError, match="python -m macro env remove things, then create"):
        env.main(["create", "thing", "-q"])


def test_a_stub_has_what_is_wanted_and_ends_who_calls_it(tmp_path: Path) -> None:
    packages = tmp_path / "lib/python3.99/site-packages/thing"
    packages.mkdir(parents=True)
    source = tmp_path / "needs.c"
    source.write_text(
        "extern int MPI_Init(void), ompi_mpi_world;\nint f(void) { return MPI_Init() + ompi_mpi_world; }\n"
    )
    stub._run(["gcc", "-shared", "-fPIC", "-o", packages / "needs.so", source], "a library")
    recipe = {"folder": "thing", "symbols": "MPI_|ompi_", "data": "ompi_"}
    assert stub.make(tmp_path, "libmpi.so.12", recipe) == 2
    assert (packages / "libmpi.so.12").exists()
    with pytest.raises(Unavailable, match="no library in the environment needs libother"):
        stub.make(tmp_path, "libother.so.1", {**recipe, "symbols": "other_"})
