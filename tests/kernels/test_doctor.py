"""The doctor on broken machines: whatever is missing, damaged or unreadable is a reason in a line."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import state
from kernels.__main__ import main
from kernels.doctor import libraries, packages, screen, survey
from kernels.doctor.packages import Part
from kernels.doctor.screen import remarks
from micro.planning.options import request

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def here() -> survey.Inventory:
    """The survey of this machine, made once."""
    return survey.survey()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """`site(file, text)` writes into a folder where Python looks for packages."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(file: str, text: str) -> None:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)

    return write


def shown(found: survey.Inventory) -> str:
    return "\n".join(screen.lines(found))


# The command


def test_the_screen_has_its_groups_and_fits_100_columns(own_state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if not line.startswith(" ")]
    assert [x for x in titles if x not in ("missing", "may cost time")] == [
        "devices",
        "libraries",
        "GPU bindings",
        "system",
        "tools",
    ]
    assert not [line for line in lines if len(line) > 100 and "state folder" not in line]
    assert f"  {'state folder':17}  {own_state}" in lines


def test_json_is_one_document_with_every_fact(own_state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) >= {"works", "devices", "system", "tools", "perf", "state", "not_told"}
    assert told["libraries"]["OpenBLAS of numpy"]["kernels"] and told["compiler"]["here"]
    assert "torch" in told["libraries"]
    assert told["libraries"]["OpenBLAS of numpy"]["threads"] and told["system"]["cores"]
    assert set(packages.OPTIONAL) == set(told["packages"])


@pytest.mark.parametrize("lost", ["cpu", "cc", "OpenBLAS of numpy"])
def test_without_its_base_it_ends_with_1(
    lost: str, here: survey.Inventory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = replace(
        here,
        devices=here.devices | ({lost: {"here": False, "reason": "gone"}} if lost == "cpu" else {}),
        tools=here.tools | ({lost: Part(False, reason="gone")} if lost == "cc" else {}),
        libraries=here.libraries | {lost: libraries.Library(False, reason="gone")},
    )
    monkeypatch.setattr(survey, "survey", lambda: broken)
    assert main([]) == 1
    assert f"{lost:17}  gone" in capsys.readouterr().out


def test_it_imports_nothing_heavy_itself() -> None:
    for arguments, heavy in (([], {"torch", "numba", "threadpoolctl", "scipy"}), (["--help"], {"numpy"})):
        ran = subprocess.run(
            [sys.executable, "-X", "importtime", "-m", "kernels", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        modules = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines()}
        assert ran.returncode == 0 and "argparse" in modules and not heavy & modules


def test_a_locale_without_the_letters_is_no_error() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "OMP_PLACES_OF": "m\u00fcnchen"}
    ran = subprocess.run(
        [sys.executable, "-m", "kernels"], cwd=ROOT, env=environment, capture_output=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert b"OMP_PLACES_OF=m\\xfcnchen" in ran.stdout


def test_unreadable_proc_and_sys_are_not_told(monkeypatch: pytest.MonkeyPatch, own_state: Path) -> None:
    readable = Path.read_text

    def refuse(self: Path, *how: object, **options: object) -> str:
        if str(self).startswith(("/proc", "/sys")):
            raise PermissionError(13, "Permission denied", str(self))
        return readable(self, *how, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", refuse)
    found = survey.survey()
    assert found.works
    assert f"  {'huge pages':17}  not known\n" in shown(found)
    assert "cgroup quota: not known" in shown(found) and "perf_event_paranoid: not" in shown(found)


def test_a_home_that_cannot_be_written_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (state.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    state.folder.cache_clear()
    try:
        found = survey.survey()
        assert found.works and found.state_temporary
        assert "(temporary: no permanent" in " ".join(shown(found).split())
    finally:
        state.folder.cache_clear()


@pytest.mark.parametrize("error", [OSError("driver gone"), SystemExit("no licence"), RuntimeError("two\nlines")])
def test_a_device_may_raise_anything(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(kind: str) -> None:
        raise error

    monkeypatch.setattr(survey, "open_device", fail)
    told = survey._device("cpu")
    assert not told["here"] and type(error).__name__ in told["reason"] and "\n" not in told["reason"]


# Packages and libraries

METADATA = "Metadata-Version: 2.1\nName: half\nVersion: 1.5\n"
HALF = packages._plain("half")


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"half-1.5.dist-info/METADATA": METADATA, "half/left.txt": ""}, "metadata of 1.5 without the package"),
        ({"half/__init__.py": "raise SystemExit('imported')"}, "no metadata"),
        ({"half/__init__.py": "", "half-1.5.dist-info/METADATA": "Name: half\n"}, "metadata without a version"),
        (
            {
                "half/__init__.py": "",
                "half-1.5.dist-info/METADATA": METADATA,
                "half-1.5.dist-info/RECORD": "half/__init__.py,,\nhalf/core.so,,\nhalf/libx.so.2,sha256=1,7\n",
            },
            "2 of its libraries missing, e.g. core.so",
        ),
    ],
)
def test_a_half_installed_package_is_told(files: dict[str, str], reason: str, site: Callable[[str, str], None]) -> None:
    for name, text in files.items():
        site(name, text)
    told = packages.package(HALF)
    assert told == Part(False, None, f"half-installed: {reason}", "pip install --force-reinstall half")


def test_a_whole_package_is_told_without_importing_it(site: Callable[[str, str], None]) -> None:
    assert packages.package(HALF) == Part(False, None, "not installed", "pip install half")
    site("half/__init__.py", "raise SystemExit('imported')")
    site("half-1.5.dist-info/METADATA", METADATA)
    assert packages.package(HALF) == Part(True, "1.5")


def test_a_finder_that_raises_is_a_reason(site: Callable[[str, str], None]) -> None:
    def there() -> bool:
        raise ValueError("half.__spec__ is None")

    told = packages.package(replace(HALF, there=there))
    assert told.reason == "half-installed: ValueError: half.__spec__ is None"


def test_a_library_that_kills_its_process_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "python"
    here = json.dumps({"here": True, "version": "MKL 1"})
    fake.write_text(f"""#!/bin/sh
case "$*" in
*scipy*) echo 'bad page' >&2; kill -BUS $$;;
*) echo 'MKL_VERBOSE [noise]'; echo '{here}'; echo noise;;
esac""")
    fake.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(fake))
    reason = "loading it ended the process: SIGBUS, bad page"
    again = "pip install --force-reinstall scipy"
    assert libraries.opened("OpenBLAS of scipy") == libraries.Library(False, reason=reason, install=again)
    assert libraries.opened("MKL") == libraries.Library(True, "MKL 1")
    fake.write_text(f"#!/bin/sh\necho '{here}'\nkill -SEGV $$")
    assert libraries.opened("MKL") == libraries.Library(True, "MKL 1")  # it was opened, and damages its end
    fake.write_text("#!/bin/sh\nexit 0")
    assert libraries.opened("MKL").reason == "loading it ended the process: exit code 0"
    fake.write_text("#!/bin/sh\nexec sleep 60")
    monkeypatch.setattr(libraries, "PATIENCE", 0.1)
    assert (libraries.opened("MKL").reason or "").startswith("cannot be loaded: TimeoutExpired")


def test_a_library_without_its_symbols_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise AttributeError("undefined symbol: cblas_sgemm")

    monkeypatch.setitem(libraries.LIBRARIES, "MKL", ("mkl", lambda: None, load))
    told = libraries.library("MKL")
    assert not told.here and told.reason == "AttributeError: undefined symbol: cblas_sgemm"


# Ways to a GPU


def test_every_way_to_a_gpu_is_told_without_importing_it() -> None:
    program = (
        "import sys; from kernels.doctor.packages import bindings; told = bindings(); "
        "print(sorted({'cupy', 'pycuda', 'skcuda', 'numba', 'torch', 'pynvml', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert (ran.returncode, ran.stdout) == (0, "[]\n"), ran.stderr


def test_a_way_to_a_gpu_has_its_own_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks() -> str | None:
        raise ImportError("libcupy.so: too short\nand so on")

    monkeypatch.setattr(packages, "BINDINGS", {"cuBLAS": lambda: None, "CuPy": lambda: "gone", "PyCUDA": breaks})
    reasons = {"cuBLAS": None, "CuPy": "gone", "PyCUDA": "ImportError: libcupy.so: too short"}
    assert packages.bindings() == reasons


def test_the_ways_are_on_the_screen_and_in_the_document(
    own_state: Path, capsys: pytest.CaptureFixture[str], here: survey.Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = replace(here, bindings={"cuBLAS": None, "CuPy": "eaten", "PyCUDA": "eaten"})
    monkeypatch.setattr(survey, "survey", lambda: told)
    main([])
    group = capsys.readouterr().out.partition("\nGPU bindings\n")[2].splitlines()[:2]
    assert [" ".join(line.split()) for line in group] == ["usable cuBLAS", "not usable CuPy, PyCUDA: eaten"]
    main(["--json"])
    assert json.loads(capsys.readouterr().out)["bindings"] == told.bindings


# What may cost time


@pytest.fixture
def plain(here: survey.Inventory) -> survey.Inventory:
    """Return an inventory without remarks: MKL on its vendor's processor, the widest kernels, freed memory kept."""
    found = here
    devices = {**found.devices, "cpu": {**found.devices["cpu"], "vendor": "GenuineIntel", "isa": ["sse", "avx512"]}}
    blas = replace(found.libraries["OpenBLAS of numpy"], here=True, kernels="SkylakeX", isa="avx512", asked=None)
    assert found.system is not None
    malloc = {"MALLOC_MMAP_MAX_": "0"}
    system = replace(found.system, variables={}, huge_pages="madvise", libc="glibc 2.36", malloc_variables=malloc)
    parts = {**found.packages, "torch": Part(True, "2.13.0")}
    opened = {"OpenBLAS of numpy": blas}
    return replace(found, devices=devices, libraries=opened, system=system, packages=parts)


def cpu(found: survey.Inventory, **of: Any) -> survey.Inventory:
    return replace(found, devices={**found.devices, "cpu": {**found.devices["cpu"], **of}})


def blas(found: survey.Inventory, **of: Any) -> survey.Inventory:
    return replace(found, libraries={"OpenBLAS of numpy": replace(found.libraries["OpenBLAS of numpy"], **of)})


def system(found: survey.Inventory, **of: Any) -> survey.Inventory:
    assert found.system is not None
    return replace(found, system=replace(found.system, **of))


def test_where_nothing_is_wrong_nothing_is_said(plain: survey.Inventory) -> None:
    assert remarks(plain) == remarks(replace(plain, system=None)) == []
    assert remarks(system(plain, libc="musl", malloc_variables={})) == []


def test_each_has_a_line_and_a_command(plain: survey.Inventory) -> None:
    cases = {
        "MKL may use slower kernels on AuthenticAMD": cpu(plain, vendor="AuthenticAMD"),
        "it uses Zen kernels (avx2) although avx512": blas(plain, kernels="Zen", isa="avx2"),
        "OPENBLAS_CORETYPE=Haswell overrides its choice of kernels": blas(plain, kernels="Haswell", asked="Haswell"),
        "returns large freed blocks": system(plain, malloc_variables={}),
        "transparent huge pages are off": system(plain, huge_pages="never"),
    }
    for said, found in cases.items():
        ((_, text),) = remarks(found)
        assert said in text, text
        words = shlex.split(text[text.index("python -m ") :].partition(", once")[0])[2:]
        definition = importlib.import_module(words[0]).BENCHMARK
        request(definition, words[0].partition(".")[2], words[1:], raising=True)  # which raises where it is none


def test_of_another_architecture_and_without_mkl_nothing_is_said_of_it(plain: survey.Inventory) -> None:
    assert remarks(cpu(plain, vendor="ARM", isa=["neon"])) == []
    absent = {**plain.packages, "torch": Part(False)}
    assert remarks(replace(cpu(plain, vendor="AuthenticAMD"), packages=absent)) == []
