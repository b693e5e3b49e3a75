"""A kernel of the user's own: a function or a row, by module or by file, and what is said where it is none."""

from __future__ import annotations

import hashlib
import itertools
import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import users
from kernels.catalog import find
from kernels.devices.fake import Fake
from kernels.errors import LaunchError, UsageError, WrongResult
from kernels.launch import Launch
from kernels.ops.gemm.problem import Gemm as Problem
from kernels.setting import Setting
from kernels.users import load
from micro.planning.contest import Case, parse
from micro.worker import check, guards
from micro.worker.client import Local, ask
from micro.worker.host import Host
from micro.worker.messages import Prepare
from tests.conftest import Ran
from tests.kernels.rows import CPU, checked

Gemm = Callable[..., Ran]
SQUARE = Problem(6, 7, 8)
SIZE = ("--m", "8", "--n", "8", "--k", "8")
KERNELS = """
from functools import partial
import numpy as np
from kernels.launch import Launch
from kernels.variant import Variant

def right(problem, a, b, c):
    c[...] = problem.alpha * ((a if problem.trans[0] == "n" else a.T) @ (b if problem.trans[1] == "n" else b.T))

def zeros(problem, a, b, c):
    c[...] = 0

def launches(problem, a, b, c):
    return Launch(partial(np.matmul, a, b, c), workspace=64)

def narrow(problem, a, b, c):
    c[...] = a @ b
narrow.precision = "fp32"

def raises(problem, a, b, c):
    raise ArithmeticError("no such product\\nsecond line")

called = partial(right)
ROW = Variant("a row", "cpu", "mine", lambda problem, device, setting: lambda views: Launch(lambda: None))
NUMBER = 5
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `mine.py`; nothing here answers late."""
    monkeypatch.setattr(check, "LATE", 0.0)
    (tmp_path / "mine.py").write_text(KERNELS)
    return tmp_path


def loaded(name: str, problem: Problem = SQUARE) -> check.Passed:
    return checked(problem, load(name), seed=1)


# What may be named


@pytest.mark.parametrize("name", ["right", "launches", "narrow", "called"])
def test_right_functions_pass(place: Path, name: str) -> None:
    assert 0 < loaded(f"{place}/mine.py:{name}").error < 1e-5


@pytest.mark.parametrize("problem", [SQUARE, Problem(3, 4, 5, "tt"), Problem(3, 4, 5, "nt", ld_pad=3)])
def test_a_function_gets_the_problem_and_its_operands_in_order(problem: Problem) -> None:
    seen: list[Any] = []
    bind = users._prepare(lambda *given: seen.append(given), problem, CPU, Setting())
    bench = guards.Bench(CPU, problem)
    bind(bench.views).call()
    for given, *views in seen:
        assert given is problem
        assert [(x.shape, x.strides) for x in views] == [(x.shape, x.strides) for x in bench.views]
    assert all(x is y for x, y in zip(seen[1][1:], bench.views, strict=True))


def test_wrong_functions_are_refused(place: Path) -> None:
    with pytest.raises(WrongResult, match=r"^returns zeros$"):
        loaded(f"{place}/mine.py:zeros")


def test_a_function_that_raises_is_told_by_the_first_line(place: Path) -> None:
    host = Local(Host(CPU, 0))
    with pytest.raises(LaunchError, match=r"^raises ArithmeticError: no such product \(mine\.py, line \d+\)$"):
        ask(host, Prepare(Case(SQUARE, f"{place}/mine.py:raises")), 1.0)


def test_a_launch_is_what_is_timed(place: Path) -> None:
    found = load(f"{place}/mine.py:launches")
    launch = found.prepare(SQUARE, CPU, Setting())(guards.Bench(CPU, SQUARE).views)
    assert isinstance(launch, Launch) and (launch.uses, launch.workspace) == (1, 64)


def test_a_function_is_tried_on_numbers_before_it_is_bound(place: Path) -> None:
    """Its compiler runs in `prepare`; garbage there would overflow, and warn."""
    seen: list[Any] = []
    bind = users._prepare(lambda problem, *views: seen.extend(views), SQUARE, CPU, Setting())
    assert len(seen) == 3 and all(np.isfinite(x).all() and x.any() for x in seen)
    starts = sorted((x.ctypes.data, x.nbytes) for x in seen)
    assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(starts))
    bind(guards.Bench(CPU, SQUARE).views)
    assert len(seen) == 3  # binding sets addresses, nothing runs


def test_a_function_is_tried_at_addresses_as_it_will_get_them() -> None:
    """Multiples of what the device aligns to."""
    device = Fake()
    device.kind = replace(device.kind, alignment=512)
    seen: list[int] = []
    tried = lambda problem, *operands: seen.extend(x.ctypes.data for x in operands)  # noqa: E731
    users._prepare(tried, Problem(5, 7, 3), device, Setting())
    assert len({place % 512 for place in seen}) == 1  # of a block that starts where the fake's do


def test_a_function_s_precision_is_its_own(place: Path) -> None:
    """What is computed in half precision is right where that is said, and wrong where it is not."""
    half = "def half(problem, a, b, c):\n    c[...] = a.astype('f2') @ b.astype('f2')\n"
    (place / "silent.py").write_text(half)
    (place / "says.py").write_text(half + "half.precision = 'fp16'\n")
    assert [load(f"{place}/{name}.py:half").precision for name in ("silent", "says")] == ["fp32", "fp16"]
    assert load(f"{place}/mine.py:narrow").precision == "fp32"
    loaded(f"{place}/says.py:half")
    with pytest.raises(WrongResult):
        loaded(f"{place}/silent.py:half")


@pytest.mark.parametrize("precision", ["fp64", "banana", None])
def test_a_precision_that_is_not_known_is_refused_by_name(place: Path, precision: object) -> None:
    (place / "p.py").write_text(f"def p(problem, a, b, c): ...\np.precision = {precision!r}\n")
    with pytest.raises(UsageError, match=f"p.py:p: precision {precision!r}: choose from fp32, "):
        load(f"{place}/p.py:p")


def test_a_row_is_taken_as_it_is(place: Path) -> None:
    found = load(f"{place}/mine.py:ROW")
    assert (found.name, found.provider) == ("a row", "mine")


def test_by_module_and_by_file_it_is_the_same_kernel(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(place))
    (place / "kernelgap_users_mine.py").write_text(KERNELS)
    for name in ("kernelgap_users_mine:right", f"{place}/kernelgap_users_mine.py:right"):
        assert loaded(name).error < 1e-5
        digest = hashlib.sha256(KERNELS.encode()).hexdigest()[:12]
        assert load(name).kernel() == (f"kernelgap_users_mine.py sha256:{digest}", None)


def test_the_record_s_kernel_holds_file_and_digest(place: Path) -> None:
    path = place / "mine.py"
    told = [Host(CPU, 0).prepare(Case(SQUARE, f"{path}:{name}")).kernel for name in ("right", "launches")]
    assert told == [f"mine.py sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"] * 2
    path.write_text(KERNELS + "# changed\n")
    find.cache_clear()
    assert Host(CPU, 0).prepare(Case(SQUARE, f"{path}:right")).kernel not in told


# What may not


@pytest.mark.parametrize(
    ("content", "name", "told"),
    [
        ("NUMBER = 5", "NUMBER", "must be a function or a Variant"),
        ("", "missing", "mine.py has no missing; it has no function"),
        ("raise ValueError('my own\\ntrouble')", "f", "ValueError: my own"),
        ("import no_such_package", "f", "No module named 'no_such_package'"),
        ("def (", "f", "SyntaxError"),
        ("1 / 0", "f", "ZeroDivisionError"),
        (None, "f", "no file"),
        ("import sys\nsys.exit(0)", "f", "SystemExit"),
    ],
)
def test_what_is_no_kernel_is_refused_with_one_line(
    gemm: Gemm, tmp_path: Path, content: str | None, name: str, told: str
) -> None:
    if content is not None:
        (tmp_path / "mine.py").write_text(content)
    ran = gemm(*SIZE, "--device", "fake", "--variant", f"openblas,{tmp_path}/mine.py:{name}")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
    assert ran.err.startswith(f"micro.gemm: --variant {tmp_path}/mine.py:{name}: ") and told in ran.err


def test_a_file_may_hold_a_dataclass(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\n\n\n@dataclass\nclass Plan:\n"
        "    size: int\n\n\ndef product(problem, a, b, c):\n    c[...] = a @ b\n"
    )
    assert load(f"{tmp_path}/mine.py:product").provider == "user"


# Names


ODD = ["größe und 幅", "50% off", "5%2Foff", "a=b", "it's", "[x]", "a*2", "a:b", "$HOME"]


@pytest.mark.parametrize("name", ODD)
def test_a_file_s_name_may_be_odd(gemm: Gemm, place: Path, name: str) -> None:
    folder = place / name
    folder.mkdir()
    (place / "mine.py").rename(folder / "mine.py")
    variant = f"{folder}/mine.py:right"
    assert loaded(variant).error < 1e-5
    case = Case(SQUARE, variant)
    assert parse(case.name) == case and case.name.count("/") == case.problem.name.count("/") + 2
    ran = gemm(*SIZE, "--device", "fake", "--variant", f"openblas,{variant}", "--json", "-")
    assert ran.code == 0 and [x["variant"] for x in json.loads(ran.out)["results"]][1] == variant
    assert "%25" not in ran.err and "%2F" not in ran.err.replace(name, ""), "names are said as they were typed"


@pytest.mark.parametrize("name", ["with blanks", "it's", "$HOME"])
def test_the_line_that_repeats_an_odd_name_can_be_typed(gemm: Gemm, place: Path, name: str) -> None:
    (place / name).mkdir()
    (place / "mine.py").rename(place / name / "mine.py")
    ran = gemm(
        *SIZE, "--device", "fake", "--until", "plan", "--json", "-", "--variant", f"{place}/{name}/mine.py:right"
    )
    line = json.loads(ran.out)["results"][0]["repeat"]
    assert shlex.quote(f"{place}/{name}/mine.py:right") in line


def test_two_files_with_functions_of_one_name_join_one_contest(gemm: Gemm, place: Path) -> None:
    (place / "other").mkdir()
    (place / "other" / "mine.py").write_text(KERNELS)
    names = [f"{place}/mine.py:right", f"{place}/other/mine.py:right"]
    ran = gemm(*SIZE, "--device", "fake", "--variant", ",".join(names), "--json", "-")
    told = json.loads(ran.out)
    assert ran.code == 0
    assert [one["variant"] for one in told["results"] if one["role"] == "measured"] == names
    assert len({one["contest"] for one in told["results"]}) == 1 and len(told["comparisons"]) == 1
    functions = [find("gemm", name).prepare.args[0] for name in names]  # type: ignore[attr-defined]
    assert functions[0] is not functions[1]
    assert all(sys.modules[function.__module__].right is function for function in functions)


def test_a_name_that_a_file_lacks_is_told_with_those_it_has(place: Path) -> None:
    with pytest.raises(UsageError, match=r"mine\.py has no nope; it has right, zeros, "):
        load(f"{place}/mine.py:nope")


def test_a_module_of_a_package_keeps_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "kernelgap_users_package"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "kernels_of_mine.py").write_text(f"from . import __name__ as package\n{KERNELS}")
    monkeypatch.chdir(tmp_path)
    assert load("kernelgap_users_package.kernels_of_mine:right").kernel is not None
