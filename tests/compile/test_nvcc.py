"""Finding nvcc, caching what it makes and reading what it says, with a script in its place."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernels import nvcc
from kernels.errors import BuildError, Unavailable
from tests import processes

SAID = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    272 bytes stack frame, 280 bytes spill stores, 288 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 272 bytes cumulative stack size, 8704 bytes smem, 448 bytes cmem[0]
ptxas info    : Compile time = 760.967 ms
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
"""
SCRIPT = """#!/bin/sh
if [ "$1" = --version ]; then echo 'Cuda compilation tools'; echo '{version}'; exit; fi
echo "$@" >> {folder}/calls
case "$*" in *broken*)
    echo 'x.cu(1): warning: so'; echo 'x.cu(2): error: no such thing'; echo 'x.cu(3): error: nor that'; exit 2;;
    *endless*) sleep 600 & echo $! > {folder}/helper; wait;;
esac
while [ "$1" != -o ]; do shift; done
echo made > "$2"
cat >&2 {folder}/said
"""


class Fake:
    """An nvcc that writes down how it was called."""

    def __init__(self, folder: Path, version: str = "release 13.0") -> None:
        self.folder, self.path = folder, folder / "nvcc"
        folder.mkdir(exist_ok=True)
        (folder / "said").write_text(SAID)
        self.path.write_text(SCRIPT.format(folder=folder, version=version))
        self.path.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        told = self.folder / "calls"
        return told.read_text().splitlines() if told.exists() else []


@pytest.fixture
def own_state(own_state: Path) -> Path:
    """Not made yet: nothing is built in it."""
    (own_state / "build").unlink()
    own_state.rmdir()
    return own_state


@pytest.fixture
def fake(tmp_path: Path, own_state: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake(tmp_path / "toolkit")
    monkeypatch.setenv("NVCC", str(made.path))
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "some.cu"
    path.write_text("first")
    return path


def test_compiled_once(fake: Fake, source: Path, own_state: Path) -> None:
    path = nvcc.cubin(source, "sm_90")
    assert path.read_text() == "made\n"
    assert path.parent == own_state / "build" and path.name.startswith("some-sm_90-")
    assert nvcc.cubin(source, "sm_90") == path
    nvcc.resources(source, "sm_90")
    assert len(fake.calls) == 1
    assert {"-cubin", "-O3", "-arch=sm_90", str(source)} <= set(fake.calls[0].split())


def test_compiled_again_where_something_differs(
    fake: Fake, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [nvcc.cubin(source, "sm_90"), nvcc.cubin(source, "sm_80")]
    source.write_text("second")
    paths.append(nvcc.cubin(source, "sm_90"))
    monkeypatch.setattr(nvcc, "FLAGS", (*nvcc.FLAGS, "-lineinfo"))
    paths.append(nvcc.cubin(source, "sm_90"))
    Fake(fake.folder, "release 13.1")
    nvcc.version.cache_clear()
    paths.append(nvcc.cubin(source, "sm_90"))
    assert len(set(paths)) == len(fake.calls) == 5


def test_what_ptxas_said_is_kept_with_the_cubin(fake: Fake, source: Path) -> None:
    nvcc.cubin(source, "sm_90").with_suffix(".ptxas").unlink()
    assert nvcc.resources(source, "sm_90")["first"].registers == 30
    assert len(fake.calls) == 2


def test_resources_are_read(fake: Fake, source: Path) -> None:
    assert nvcc.resources(source, "sm_90") == {
        "first": nvcc.Resources(registers=30, spill_stores=0, spill_loads=0, stack=0, shared=0),
        "second": nvcc.Resources(registers=255, spill_stores=280, spill_loads=288, stack=272, shared=8704),
    }


@pytest.mark.parametrize("lost", ["Used", "spill stores", "spill loads", "stack frame"])
def test_other_wording_is_told_not_guessed(lost: str) -> None:
    with pytest.raises(BuildError, match="its format has changed"):
        nvcc.read(SAID.replace(lost, "?"))


def test_first_complaint_is_told(fake: Fake, tmp_path: Path) -> None:
    broken = tmp_path / "broken.cu"
    broken.write_text("broken")
    with pytest.raises(BuildError, match=r"^broken.cu does not compile for -arch=sm_90: x.cu\(2\): error: no such"):
        nvcc.cubin(broken, "sm_90")
    assert not list(tmp_path.glob("state/build/*"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder_is_told(fake: Fake, source: Path, own_state: Path) -> None:
    (own_state / "build").mkdir(parents=True)
    (own_state / "build").chmod(0o500)
    with pytest.raises(BuildError, match=r"^some.cu cannot be built in .*: Permission denied"):
        nvcc.cubin(source, "sm_90")


def test_folder_that_cannot_be_made_is_told(fake: Fake, source: Path, own_state: Path) -> None:
    own_state.mkdir()
    (own_state / "build").write_text("a file")
    with pytest.raises(BuildError, match=r"^some.cu cannot be built in .*: File exists"):
        nvcc.cubin(source, "sm_90")


# Where it is


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a variable nor NVIDIA's wheel leads to one."""
    for name in ("NVCC", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(nvcc, "find_spec", lambda name: None)


def test_found_by_variable_then_path_then_toolkit(
    nowhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, on_path, toolkit = (Fake(tmp_path / name).path for name in ("asked", "path", "toolkit"))
    monkeypatch.setattr(nvcc, "TOOLKIT", toolkit)
    monkeypatch.setenv("PATH", str(on_path.parent))
    monkeypatch.setenv("NVCC", str(asked))
    assert nvcc.find() == asked
    monkeypatch.delenv("NVCC")
    assert nvcc.find() == on_path
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvcc.find() == toolkit
    toolkit.unlink()
    assert nvcc.find() is None


def test_found_by_home_then_toolkit_then_wheel(nowhere: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("home", "nvidia/cu13"):
        (tmp_path / name).mkdir(parents=True)
    home, toolkit, wheel = (Fake(tmp_path / name).path for name in ("home/bin", "toolkit", "nvidia/cu13/bin"))
    spec = SimpleNamespace(submodule_search_locations=[str(tmp_path / "nvidia")])
    monkeypatch.setattr(nvcc, "find_spec", lambda name: spec)
    monkeypatch.setattr(nvcc, "TOOLKIT", toolkit)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    assert nvcc.find() == home
    home.unlink()
    assert nvcc.find() == toolkit
    toolkit.unlink()
    assert nvcc.find() == wheel


def test_missing_names_the_remedy(nowhere: None, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "TOOLKIT", tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"^no nvcc: install a CUDA toolkit .* or set NVCC"):
        nvcc.cubin(source, "sm_90")


def test_wrong_variable_is_told_not_passed_over(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(Fake(tmp_path / "path").path.parent))
    monkeypatch.setenv("NVCC", "/no/such/nvcc")
    with pytest.raises(Unavailable, match=r"^NVCC=/no/such/nvcc is not a program: install"):
        nvcc.cubin(source, "sm_90")


def test_found_is_not_missing(fake: Fake) -> None:
    assert nvcc.missing() is None


def test_of_a_compiler_that_hangs_nothing_is_left(fake: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """nvcc starts cicc and ptxas, which would go on."""
    endless = tmp_path / "endless.cu"
    endless.write_text("")
    monkeypatch.setattr(nvcc, "PATIENCE", 0.5)
    with pytest.raises(BuildError, match="did not compile"):
        nvcc.cubin(endless, "sm_90")
    assert processes.gone(int((fake.folder / "helper").read_text()))
