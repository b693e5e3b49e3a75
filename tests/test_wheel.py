"""One package: what setup.py makes of the checkout's names, and that other packages keep theirs."""

from __future__ import annotations

import ast
import collections
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelgap
from setup import ROOMS, in_wheel

ROOT = Path(__file__).parents[1]
LEFT = re.compile(rf"^\s*(?:from|import) (?:{ROOMS})\b|\b(?:python3? -m|run) (?:{ROOMS})\b", re.M)
MINE = """
from kernelgap import Launch
import kernels, neighbor
def product(problem, a, b, c): kernels.multiply(a, b, c)
"""
MEASURED = """
import kernels, kernelgap
assert kernels.multiply and not hasattr(kernels, "catalog")
run = kernelgap.measure(kernelgap.plan("gemm", m=[8], n=8, k=8, variant="numpy,mine.py:product", budget="0.2s"))
print({r.variant: r.reason for r in run.results if r.role == "measured"})
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package as the wheel has it, and other projects' modules of the suite's names."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "kernels").mkdir()  # what an older build left
    (folder / "mine").mkdir()
    words = ["setup.py", "-q", "build", "--build-base", str(folder / "build"), "--build-lib", str(folder)]
    subprocess.run([sys.executable, *words], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    assert (folder / "mine").is_dir() and not (folder / "kernels").exists()
    for room in ROOMS.split("|"):
        (folder / f"{room}.py").write_text("raise ImportError('not the suite')\n")
    (folder / "kernels.py").write_text("import numpy\ndef multiply(a, b, c): numpy.matmul(a, b, out=c)\n")
    return folder


def run(folder: Path, cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("from kernels.errors import summary", "from kernelgap.kernels.errors import summary"),
        ("    from micro import plan", "    from kernelgap.micro import plan"),
        ("    import micro", "    from kernelgap import micro"),
        ("import macro.explaining.rows as rows", "import kernelgap.macro.explaining.rows as rows"),
        ("import micrometer", "import micrometer"),
        ("'python -m micro.gemm --k 64'", "'kernelgap gemm --k 64'"),
        ("'python -m macro explain train.py'", "'kernelgap explain train.py'"),
        ("'python -m micro all'", "'kernelgap all'"),
        ("'python -m micro --mechanisms'", "'kernelgap list --mechanisms'"),
        ("'python -m kernels'", "'kernelgap doctor'"),
        ("not known here, run micro.selftest --full", "not known here, run kernelgap selftest --full"),
    ],
)
def test_line_of_the_wheel(line: str, expected: str) -> None:
    assert in_wheel(line) == expected


def test_no_module_of_the_wheel_keeps_a_name_of_the_checkout(installed: Path) -> None:
    paths = list((installed / "kernelgap").rglob("*.py"))
    assert len(paths) > 500
    left = {str(path): found for path in paths if (found := set(kept_names(path.read_text())))}
    assert left == {}
    assert not [path for path in (installed / "kernelgap").rglob("*.toml") if LEFT.search(path.read_text())]


def kept_names(source: str) -> Iterator[str]:
    """Names of the checkout in imports, and in strings that hold code or commands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            yield from (name for name in names if re.fullmatch(ROOMS, name.partition(".")[0]))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from LEFT.findall(node.value)


def test_the_wheel_has_every_file(installed: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", *ROOMS.split("|")], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("no git repository: apt-get install git, and clone")
    files = {Path(name) for name in listed.stdout.splitlines() if not name.startswith("reports/reference/")}
    built = {path.relative_to(installed / "kernelgap") for path in (installed / "kernelgap").rglob("*.*")}
    assert files - built == set()


def test_each_command_has_one_name() -> None:
    names = collections.Counter(name for name, *_ in kernelgap.commands())
    assert [name for name, count in names.items() if count > 1] == []
    assert {"gemm", "explain", "doctor", "show", "all"} <= names.keys()


def test_exported_names_are_the_suites() -> None:
    from kernels.launch import Launch
    from macro.agent.path.kernelgap import step

    assert kernelgap.Launch is Launch and kernelgap.step is step
    assert [name for name in kernelgap.__all__ if not hasattr(kernelgap, name)] == []
    with pytest.raises(AttributeError, match="has no attribute 'launch'; it has step, plan"):
        kernelgap.launch


def test_import_of_kernelgap_is_light() -> None:
    code = "import sys, kernelgap; print({'numpy', 'kernels.errors', 'micro', 'macro'} & set(sys.modules))"
    assert run(ROOT, ROOT, "-c", code).stdout == "set()\n"


def test_other_packages_keep_their_names(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "neighbor.py").write_text("NAME = 'numpy'\n")
    ran = run(installed, tmp_path, "-c", MEASURED)
    assert (ran.stdout, ran.stderr) == ("{'numpy': None, 'mine.py:product': None}\n", "")


def test_command_repeats_by_its_own_name(installed: Path, tmp_path: Path) -> None:
    command = "import sys, kernelgap; sys.argv[0] = 'kernelgap'; sys.exit(kernelgap.main())"
    words = "gemm --m 8 --n 8 --k 8 --variant numpy,naive --device fake --budget 1s -o run.jsonl -q"
    ran = run(installed, tmp_path, "-c", command, *words.split())
    assert ran.returncode == 0, ran.stderr
    text = (tmp_path / "run.jsonl").read_text()
    assert f'"command":"kernelgap {words}"' in text
    assert '"repeat":"kernelgap gemm --m 8' in text
    assert run(installed, tmp_path, "-c", command, "show", "run.jsonl").returncode == 0
    unknown = run(installed, tmp_path, "-c", command, "gem")
    assert (unknown.returncode, unknown.stderr[:35]) == (2, "kernelgap: no command gem; choose f")


def test_kernel_of_a_clashing_name_is_refused_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from kernels import get_kernel\n")
    words = "--m 8 --n 8 --k 8 --variant numpy,mine.py:product --budget 1s"
    ran = run(ROOT, tmp_path, "-m", "micro.gemm", *words.split())
    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1 and "in a checkout, `kernels` is a folder of this suite" in ran.stderr
