"""Which folder may import which, read off the syntax trees; no files in a circle; a docstring in every module."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter
from itertools import pairwise

import pytest

from tests import house

ARROWS = {
    "kernels": {"kernels"},
    "reports": {"reports"},
    "micro": {"micro", "kernels", "reports"},
    "macro": {"macro", "micro", "kernels", "reports", "kernelgap"},  # the last: what marks a script's steps
}
BEYOND = {"kernels/suite.py", "micro/__init__.py"}  # may compute the folder that holds the packages
LOADS_FILES = {"kernels/users.py"}  # files of a user's own kernels
KNOWS_KINDS = ("kernels", "macro/frameworks", "macro/worker")  # what is of one device


def strays(node: ast.AST, package: str) -> list[str]:
    """Imports of a file of a package that no arrow between packages allows."""
    forbidden = {*ARROWS, "tests", "docs", "kernelgap"} - ARROWS[package]
    names = [(line, name.partition(".")[0]) for line, name in house.written(node)]
    return [f"line {line}: {name}" for line, name in names if name in forbidden]


def hidden(node: ast.AST) -> list[int]:
    """Lines that import in a way in which no arrow is seen: relative to their folder, or by `__import__`."""
    relative = [x.lineno for x in ast.walk(node) if isinstance(x, ast.ImportFrom) and x.level]
    return relative + [x.lineno for x in ast.walk(node) if isinstance(x, ast.Name) and x.id == "__import__"]


def climbs(node: ast.AST) -> int:
    """Return how many folders an expression goes up from `__file__`: `.parent`, `.parents[2]`."""
    ups = 0
    while not isinstance(node, ast.Name):
        match node:
            case ast.Subscript(value=ast.Attribute(value=value, attr="parents"), slice=ast.Constant(value=int(n))):
                node, ups = value, ups + n + 1
            case ast.Attribute(value=value, attr=attr):
                node, ups = value, ups + (attr == "parent")
            case ast.Call(args=[ast.Name(id="__file__")]):
                return ups
            case ast.Call(func=func):
                node = func
            case _:
                return 0
    return 0


def evasions(node: ast.Module, file: str) -> list[str]:
    """Return where a file reaches by a path or a string what its package may not import.

    A name of tests/, docs/ or macro, reports/reference, a folder above the packages, a module loaded by its path."""
    package = file.partition("/")[0]
    named = r"(\.{0,2}/)*(tests|docs)([/.]\S*)?|\S*reports/reference\S*"
    if package != "macro":
        named += r"|(\.{0,2}/)*macro([/.]\S*)?|(.*\s)?-m macro\b.*"
    texts = {id(x.value) for x in ast.walk(node) if isinstance(x, ast.Expr)}  # docstrings
    wrong = []
    for x in ast.walk(node):
        match x:
            case ast.Constant(value=str(text)) if id(x) not in texts and re.fullmatch(named, text, re.S):
                wrong.append(f"line {x.lineno}: {text}")
            case (
                ast.BinOp(op=ast.Div(), right=ast.Constant(value="reference"))
                | ast.Call(
                    func=ast.Name(id="Path") | ast.Attribute(attr="joinpath"),
                    args=[*_, ast.Constant(value="reference")],
                )
            ):
                wrong.append(f"line {x.lineno}: reports/reference")
            case ast.Attribute(attr="spec_from_file_location") | ast.alias(name="spec_from_file_location") if (
                package != "macro" and file not in LOADS_FILES
            ):
                wrong.append(f"line {x.lineno}: a module by its path")
            case ast.Subscript() | ast.Attribute() if package != "macro" and file not in BEYOND:
                if climbs(x) > file.count("/"):
                    wrong.append(f"line {x.lineno}: a folder above {package}/")
    return list(dict.fromkeys(wrong))


def upwards(
    rooms: dict[str, tuple[str, ...]], imports: list[tuple[tuple[str, str], tuple[str, str], str]]
) -> list[str]:
    """Imports within a package from a room by one that stands below it; each import: its two rooms, and what it is."""
    places = {package: {room: i for i, room in enumerate(order)} for package, order in rooms.items()}
    wrong = []
    for (package, first), (other, second), text in imports:
        if package == other and places[package][first] > places[package][second]:
            wrong.append(f"{text}: {package}/{first} stands below {package}/{second}")
    return wrong


def test_imports_follow_the_arrows_between_packages() -> None:
    found = {name: strays(house.tree(path), name.partition(".")[0]) for name, path in house.modules().items()}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_no_import_is_hidden() -> None:
    found = {name: hidden(house.tree(path)) for name, path in house.modules().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}, "write the full name of the module"


def test_no_string_or_path_reaches_what_may_not_be_imported() -> None:
    files = {path.relative_to(house.ROOT).as_posix(): path for path in house.modules().values()}
    wrong = {file: evasions(house.tree(path), file) for file, path in files.items()}
    assert {file: lines for file, lines in wrong.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ('Path(__file__).parents[2] / "frameworks"', "micro/command/x.py"),
        ('Path(__file__).resolve().parent.parent.joinpath("x")', "micro/x.py"),
        ('ROOT / "macro/frameworks/pytorch.py"', "micro/measuring/x.py"),
        ('importlib.util.spec_from_file_location("adapter", path)', "micro/command/x.py"),
        ('[sys.executable, "-m", "macro", "run"]', "micro/command/x.py"),
        ('subprocess.run("python -m macro explain x.py", shell=True)', "kernels/x.py"),
        ('suite.child("macro.run")', "reports/x.py"),
        ('pytest.main(["tests/gpu"])', "macro/x.py"),
        ('ROOT / "docs/examples/mlp.py"', "micro/x.py"),
        ('Path("reports") / "reference"', "micro/answers/x.py"),
        ('open("../reports/reference/h100/answers.ndjson")', "macro/x.py"),
        ('f"{ROOT}/macro/frameworks/pytorch.py"', "micro/x.py"),
        ('Path("./tests/gpu")', "macro/x.py"),
        ('Path("reports", "reference")', "micro/x.py"),
        ("from importlib.util import spec_from_file_location", "reports/x.py"),
    ],
)
def test_a_string_or_path_that_reaches_up_is_red(text: str, file: str) -> None:
    assert len(evasions(ast.parse(text), file)) == 1


@pytest.mark.parametrize("text", ['"""macro"""', 'Path(__file__).parents[1] / "shapes"', '"macros", "docsis"'])
def test_a_string_or_path_that_stays_below_is_green(text: str) -> None:
    assert evasions(ast.parse(text), "micro/command/x.py") == []


@pytest.mark.parametrize("text", ["from . import x", "from ..low import x", "__import__('micro.worker')"])
def test_a_hidden_import_is_found(text: str) -> None:
    assert hidden(ast.parse(f"import low\n{text}")) == [2]


def test_every_room_has_its_place() -> None:
    assert house.ROOMS.keys() == {*ARROWS}
    used = {house.room(name) for name in house.modules()}
    placed = {(package, room) for package, rooms in house.ROOMS.items() for room in rooms}
    assert used - placed == set(), "put the new folder into the table of CONTRIBUTING.md, before what it imports"
    assert placed - used <= {("micro", "shapes")}, "folders of data alone, others are gone"


def test_imports_follow_the_arrows_between_folders() -> None:
    imports = [
        (house.room(x.importer), house.room(x.imported), f"{x.importer}, line {x.line}, imports {x.imported}")
        for x in house.imports()
    ]
    wrong = upwards(house.ROOMS, imports)
    assert not wrong, "\n".join(wrong)


def test_no_files_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for one in house.imports():
        graph.setdefault(one.importer, set()).add(one.imported)
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the files


def test_every_module_has_a_docstring() -> None:
    without = [name for name, path in house.modules().items() if not ast.get_docstring(house.tree(path))]
    assert without == [], "say in one line what each file is for"


def test_every_folder_with_modules_is_a_package() -> None:
    assert not {path.parent for path in house.modules().values() if not (path.parent / "__init__.py").exists()}


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("import micro", "kernels"),
        ("def f():\n    from reports import units", "kernels"),
        ("from kernels.problem import Problem", "reports"),
        ("if TYPE_CHECKING:\n    import kernels.variant as v", "reports"),
        ("from macro import run", "micro"),
        ("importlib.import_module('micro.planning.contest')", "kernels"),
        ("import_module(f'kernels.ops.{op}')", "reports"),
        ("import tests.conftest", "micro"),
        ("import kernelgap", "micro"),
        ("from docs import generate", "macro"),
    ],
)
def test_a_wrong_arrow_between_packages_is_found(text: str, package: str) -> None:
    assert len(strays(ast.parse(text), package)) == 1


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("import low.file", ["low.file"]),
        ("from low import file", ["low.file"]),
        ("from low.file import name, other", ["low.file", "low.file"]),
        ("if TYPE_CHECKING:\n    from low.file import Type", ["low.file"]),
        ("def f():\n    import low.file as x", ["low.file"]),
        ("importlib.import_module('low.file')", ["low.file"]),
        ("importlib.import_module(f'low.{name}')", []),
        ("import high.own, numpy", []),
    ],
)
def test_every_way_to_import_is_seen(text: str, imported: list[str]) -> None:
    known = {"low": 0, "low.file": 0, "high": 0, "high.own": 0}
    assert [x.imported for x in house.needs("high.own", ast.parse(text), known)] == imported


def test_an_arrow_upwards_is_named() -> None:
    rooms = {"p": ("top", "middle", "low")}
    down = [(("p", a), ("p", b), f"{a} {b}") for a, b in pairwise(rooms["p"])]
    assert (
        upwards(rooms, [*down, (("p", "low"), ("q", "top"), "another package"), (("p", "low"), ("p", "low"), "")]) == []
    )
    assert upwards(rooms, [(("p", "low"), ("p", "top"), "x, line 3, imports y")]) == [
        "x, line 3, imports y: p/low stands below p/top"
    ]


def test_only_rooms_of_a_device_name_its_kind() -> None:
    """Elsewhere a device's `Kind` has what depends on it."""
    paths = [path for folder in ("micro", "macro", "reports") for path in sorted((house.ROOT / folder).rglob("*.py"))]
    naming = [path.relative_to(house.ROOT).as_posix() for path in paths if '"cuda"' in path.read_text("utf-8")]
    assert [name for name in naming if not name.startswith(KNOWS_KINDS)] == []


def test_attributes_are_asked_for_by_names_that_can_be_read() -> None:
    computed = []
    for path in (path for folder in ("micro", "macro") for path in sorted((house.ROOT / folder).rglob("*.py"))):
        if "worker" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
                computed += [] if isinstance(node.args[1], ast.Constant) else [f"{path.name}:{node.lineno}"]
    assert computed == []
