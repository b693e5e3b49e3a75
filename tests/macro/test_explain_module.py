"""`macro explain -m app.train`: a module of a package, as `python -m` runs it; files beside it named like ours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernels.errors import UsageError
from macro import whatif
from macro.running import script_request
from macro.watching import ends
from macro.watching.script import Script
from tests.conftest import Ran
from tests.macro.agent.conftest import FOLDER
from tests.macro.test_explain_script import HEAD, document, marked

ROOT = Path(__file__).parents[2]
BESIDE = sorted({path.stem for path in FOLDER.rglob("*.py") if path.stem != "__init__"} - {"kernelgap"})
CHECK = """
import sys, os
from .config import W
from app import model
assert (__name__, __package__, __spec__.name) == ("__main__", "app", NAME), (__package__, __spec__)
assert sys.argv == [__file__, "--batch", "8"] and os.path.isabs(__file__), sys.argv
assert sys.path[0] == os.getcwd() and W == 64, sys.path
assert sys.modules["__main__"].W == 64 and "app.train" not in sys.modules
model.go()
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with the package `app`, whose modules fail once everything in them is as it should be."""
    folder = tmp_path / "here"
    (folder / "app" / "sub").mkdir(parents=True)
    for name, text in {
        "__init__": "",
        "config": "W = 64\n",
        "model": "def go():\n    raise ValueError('reached')\n",
        "train": CHECK.replace("NAME", "'app.train'"),
        "__main__": CHECK.replace("NAME", "'app.__main__'"),
        "sub/deep": "from ..config import W\n",
        "broken": "import nothing_of_this_name\n",
        "leaves": "import sys\n\ndef main():\n    sys.exit(3)\n\nmain()\n",
        "stops": "raise KeyboardInterrupt\n",
    }.items():
        (folder / "app" / f"{name}.py").write_text(text)
    return folder


def explain(folder: Path, *words: str, arguments: tuple[str, ...] = ()) -> Ran:
    environment = {**marked(folder), "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-m", "macro", "explain", *words, "-q", "--", *arguments]
    ran = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=240)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def last(ran: Ran) -> str:
    return ran.err.strip().splitlines()[-1].removeprefix("macro explain: ")


@pytest.mark.parametrize(("module", "file"), [("app.train", "train"), ("app", "__main__")])
def test_a_module_runs_as_python_runs_it(module: str, file: str, package: Path) -> None:
    arguments = ("--batch", "8")
    plain = [sys.executable, "-m", module, *arguments]
    ran = subprocess.run(plain, cwd=package, env=marked(package), capture_output=True, text=True)
    assert ran.stderr.endswith("ValueError: reached\n"), ran.stderr
    line = CHECK.splitlines().index("model.go()") + 1
    reason = f"{module}: failed before a step was watched: {file}.py:{line}: ValueError: reached"
    assert last(explain(package, "-m", module, arguments=arguments)) == reason


@pytest.mark.parametrize(
    ("module", "code", "reason"),
    [
        ("app.none", 2, "-m app.none: no module named app.none in {} or on the path"),
        ("app.sub", 2, "-m app.sub: no module named app.sub.__main__ in {} or on the path; app.sub is a package and"),
        ("app.train.deep", 2, "-m app.train.deep: no module named app.train.deep in"),
        ("app.broken", 1, "app.broken: failed before a step was watched: broken.py:1: ModuleNotFoundError: No module"),
        ("app.leaves", 1, "app.leaves: ended before a step was watched: leaves.py:4: it exited with 3"),
        ("app.stops", 1, "app.stops: failed before a step was watched: stops.py:1: KeyboardInterrupt"),
    ],
)
def test_a_module_that_ends_is_one_line(module: str, code: int, reason: str, package: Path) -> None:
    (package / "app" / "sub" / "__init__.py").touch()
    (package / "app" / "train.py").write_text("")
    ran = explain(package, "-m", module)
    assert (ran.code, ran.out) == (code, "") and last(ran).startswith(reason.format(package)), ran.err


@pytest.mark.parametrize(("line", "error"), [("1 / 0", "ZeroDivisionError"), ("import no_such", "ModuleNotFoundError")])
def test_a_package_that_fails_names_its_own_line(line: str, error: str, package: Path) -> None:
    (package / "app" / "__init__.py").write_text(f"\n{line}\n")
    ran = explain(package, "-m", "app.train")
    assert ran.code == 1 and f"app.train: failed before a step was watched: __init__.py:2: {error}: " in last(ran)


@pytest.mark.parametrize("file", ["app/train.py", "app/sub/deep.py", "app/__main__.py"])
def test_relative_imports_of_a_file_name_the_remedy(file: str, package: Path) -> None:
    module = file.removesuffix(".py").replace("/", ".").removesuffix(".__main__")
    ran = explain(package, file)
    assert ran.code == 1 and last(ran).endswith(f"(run it as a module of its package: -m {module}, from {package})")


def test_other_failed_imports_name_no_package(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    assert Script(tmp_path / "train.py").as_module() is None
    end = ends.Ended("failed", "helper.py:1: ImportError: attempted relative import with no known parent package")
    assert ends.early(end, {}, Script(tmp_path / "train.py")).endswith("parent package")


@pytest.mark.parametrize("words", [["train.py"], ["-m", "train"]], ids=["by path", "by -m"])
def test_files_beside_a_script_are_its_own(words: list[str], tmp_path: Path) -> None:
    names = [*BESIDE, "kernels", "micro"]
    assert {"lines", "names", "blocks", "trials", "loop", "recorder", "boundary"} < set(names)
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"MINE = {name!r}\n")
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "table.py").write_text("MINE = 'table'\n")
    imports = f"import {', '.join(names)}\nfrom reports import table\nassert table.MINE == 'table'\n"
    (tmp_path / "train.py").write_text(f"{imports}for x in {names}: assert globals()[x].MINE == x\n1 / 0\n")
    assert last(explain(tmp_path, *words)).endswith(": train.py:5: ZeroDivisionError: division by zero")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("app.train:step", "ValueError: reached"),
        ("app.train:no", "--step app.train:no: train.py defines no no"),
        ("app.model:no", "--step app.model:no: app.model has no no"),
    ],
)
def test_a_function_of_a_module_is_a_step(step: str, reason: str, package: Path) -> None:
    (package / "app" / "train.py").write_text("def step(): pass\nstep()\nfrom app.model import go\ngo()\n")
    assert last(explain(package, "-m", "app.train", "--step", step)).endswith(reason)


def test_a_library_that_is_looked_for_first_is_watched(package: Path) -> None:
    text = "import importlib.util\nassert importlib.util.find_spec('app.model')\nfrom app import model\n"
    (package / "app" / "train.py").write_text(text)
    assert last(explain(package, "-m", "app.train", "--step", "app.model:no")).endswith("app.model has no no")


def test_modules_are_named_in_requests() -> None:
    both = script_request.request(
        ["-m", "app.train", "--budget", "5s", "-m", "app.other", "--", "--batch", "8"]
    ).scripts
    assert [(x.name, x.key, x.path, x.arguments) for x in both] == [
        (name, f"-m {name}", Path.cwd(), ("--batch", "8")) for name in ("app.train", "app.other")
    ]
    heaps = script_request.request(["-m", "app.train", "--heap", "default,keep"]).scripts
    assert [x.heap for x in heaps] == ["default", "keep"]
    asked = whatif.request(["-m", "app.train", "heap-keep", "threads=2"])
    assert [x.words for x in asked.changes] == ["heap-keep", "threads=2"]
    assert asked.step.script and asked.step.script.module == "app.train" and asked.step.plan.network.name == "app.train"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-m", "app/train.py"], "-m app/train.py: must be a module's name, such as app.train"),
        (["-m", "app.train", "x.py"], "-m app.train x.py: give scripts or modules; arguments follow --"),
        (["-m", "a", "-m", "b", "-m", "c"], "-m c: give one or two modules"),
        (["-m", "a", "-m", "b", "--heap", "default,keep"], "--heap default,keep: give one heap"),
        (["-m", "a", "--step", "f"], "--step f: must be module:function (in the script, a:function) or forward"),
    ],
)
def test_modules_that_cannot_be_watched_are_refused(words: list[str], reason: str) -> None:
    with pytest.raises(UsageError) as error:
        script_request.request(words)
    assert str(error.value).startswith(reason)


def test_changes_of_a_module_need_one_module(capsys: pytest.CaptureFixture[str]) -> None:
    from macro.__main__ import main

    for command, words, reason in (
        ("advise", ["x.py"], "x.py: give a script or -m a, not both"),
        ("advise", ["-m", "b"], "-m b: give one module"),
        ("whatif", ["pytorch"], "-m a pytorch: a script takes no framework; name changes only"),
    ):
        assert main([command, "-m", "a", *words]) == 2
        assert capsys.readouterr().err == f"macro {command}: {reason}\n"
    assert main(["whatif", "-m", "a"]) == 0
    assert "python -m macro advise -m a\n" in capsys.readouterr().out


@pytest.mark.slow
def test_a_module_of_a_package_is_explained(package: Path) -> None:
    pytest.importorskip("torch")
    (package / "app" / "train.py").write_text(f"from .config import W\n{HEAD}while True: once()\n")
    ran = explain(package, "-m", "app.train", "--budget", "2s", "--json", "-")
    explained = document(ran)
    assert explained["program"]["script"] == "-m app.train" and "net.fc1 forward" in {
        x["row"] for x in explained["cells"]
    }


@pytest.mark.slow
def test_compiled_modules_print_what_they_print_alone(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    text = HEAD + "import warnings\nfast = torch.compile(net)\nfor n in range(int(sys.argv[1])):\n"
    (tmp_path / "train.py").write_text("import sys\n" + text + "    warnings.warn('mine'); once(fast)\n")
    line = [sys.executable, str(tmp_path / "train.py"), "5"]
    alone = subprocess.run(line, env=marked(tmp_path), capture_output=True, text=True)
    if alone.returncode:
        pytest.skip(f"no compiler: torch.compile fails with torch {torch.__version__}")
    ran = explain(tmp_path, "train.py", "--budget", "2s", "--wait", "5m", arguments=("100000000",))
    assert ran.code == 0 and ran.err == alone.stderr
