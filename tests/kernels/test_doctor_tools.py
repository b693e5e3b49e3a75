"""Facts of the system as the doctor tells them, from programs and files made for the purpose."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernels import build
from kernels.doctor import perf, screen, survey, tools
from kernels.doctor.survey import System, system


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], Path]]:
    """`path(name, script)` puts a program into the only folder that is searched."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    for name in ("CC", "CXX", "NVCC", "CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    build.compiler.cache_clear()

    def put(name: str, script: str) -> Path:
        program = programs / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return program

    yield put
    build.compiler.cache_clear()


# Tools


@pytest.mark.parametrize(
    ("name", "reason", "install"),
    [
        ("cc", "no C compiler; set $CC or install one", "apt install gcc libc6-dev (on Debian)"),
        ("c++", "not found", "apt install g++ (on Debian)"),
        ("perf", "not found", "apt install linux-perf (on Debian; on Ubuntu linux-tools-generic)"),
    ],
)
def test_missing_tools_name_their_command(
    name: str, reason: str, install: str, path: Callable[[str, str], Path]
) -> None:
    missing = tools.TOOLS[name]()
    assert (missing.here, missing.reason, missing.install) == (False, reason, install)


def test_a_compiler_that_cannot_compile_is_not_here(path: Callable[[str, str], Path]) -> None:
    complaint = "echo 'trial.c:1: fatal error: math.h: No such file' >&2; exit 1"
    path("cc", f'[ "$1" = --version ] && echo "cc 9" && exit 0\n{complaint}')
    told = tools.c_compiler()
    assert not told.here and told.version == "cc 9"
    assert told.reason and told.reason.endswith("does not compile: trial.c:1: fatal error: math.h: No such file")


@pytest.mark.parametrize(
    ("script", "here", "told"),
    [
        ("echo 'perf version 6.1.2'", True, "6.1.2"),
        ("echo 'WARNING: perf not found for kernel 6.1' >&2; exit 2", False, "WARNING: perf not found for kernel 6.1"),
        ("exit 0", False, "no output"),
        ("kill -9 $$", False, "no output"),
    ],
)
def test_a_tool_is_here_if_it_tells_its_version(
    script: str, here: bool, told: str, path: Callable[[str, str], Path]
) -> None:
    path("perf", script)
    found = tools.TOOLS["perf"]()
    assert found.here == here
    assert (found.version if here else (found.reason or "").partition("run: ")[2]) == told


def test_a_tool_that_hangs_is_given_up(path: Callable[[str, str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "PATIENCE", 0.2)
    path("nvcc", "exec /bin/sleep 60")
    assert "TimeoutExpired" in (tools.tool("nvcc").reason or "")


@pytest.mark.parametrize(
    ("answer", "permitted"), [(0, True), (errno.ENOENT, False), (errno.EACCES, False), (errno.EMFILE, None)]
)
def test_the_right_is_what_the_kernel_answers(
    answer: int, permitted: bool | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(perf, "ask", lambda call: answer)
    tree(tmp_path, {"proc/sys/kernel/perf_event_paranoid": "-1\n"})
    assert perf.rights(tmp_path) == perf.Rights(-1, permitted)


def test_an_unknown_system_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "vax")
    assert perf.rights().kernel_samples is None


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


# Processors and memory

V2 = "0::/user.slice/mine\n"
V1 = "4:cpu,cpuacct:/docker/a\n3:name=systemd:/x\n"


@pytest.mark.parametrize(
    ("own", "files", "limited", "quota"),
    [
        (V2, {"user.slice/mine/cpu.max": "150000 100000", "user.slice/cpu.max": "max 100000"}, True, 1.5),
        (V2, {"user.slice/mine/cpu.max": "400000 100000", "user.slice/cpu.max": "50000 100000"}, True, 0.5),
        (V2, {"cpu.max": "200000 100000"}, True, 2.0),  # a container's own root
        (V2, {"cpu.max": "max 100000"}, False, None),
        (V2, {"other/cpu.max": "50000 100000"}, False, None),
        (V2, {"cpu.max": ""}, None, None),
        ("0::/../beside\n", {"cpu.max": "max 100000", "../beside/cpu.max": "5000 100000"}, False, None),
        (V1, {"cpu,cpuacct/cpu.cfs_quota_us": "-1", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, False, None),
        (V1, {"cpu/docker/a/cpu.cfs_quota_us": "25000", "cpu/docker/a/cpu.cfs_period_us": "50000"}, True, 0.5),
        (V1, {"cpu/docker/a/cpu.cfs_quota_us": "25000"}, None, None),
        (None, {"cpu.max": "200000 100000"}, None, None),
        (V2, {}, None, None),
    ],
)
def test_the_least_quota_of_all_cgroups_above_holds(
    own: str | None, files: dict[str, str], limited: bool | None, quota: float | None, tmp_path: Path
) -> None:
    tree(tmp_path, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})
    if own is not None:
        tree(tmp_path, {"proc/self/cgroup": own})
    found = system(tmp_path)
    assert (found.limited, found.quota) == (limited, quota)


@pytest.mark.parametrize(
    ("affinity", "limited", "quota", "text"),
    [
        ((0, 1, 2, 5), True, 1.5, "may use 4 of 8; cgroup quota: 1.5 cores"),
        ((3,), False, None, "may use 1 of 8; cgroup quota: none"),
        (None, None, None, "may use an unknown number of 8; cgroup quota: not known"),
    ],
)
def test_cores_as_a_person_reads_them(
    affinity: tuple[int, ...] | None, limited: bool | None, quota: float | None, text: str
) -> None:
    assert screen._cores(System(8, affinity, limited, quota, None, None, {}, {})) == text


def test_huge_pages_and_a_system_without_the_files(tmp_path: Path) -> None:
    assert system(tmp_path).huge_pages is None and perf.rights(tmp_path).paranoid is None
    tree(tmp_path, {"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n"})
    assert system(tmp_path).huge_pages == "madvise"


def test_a_fact_that_raises_is_not_told_with_what_it_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(survey, "system", fail)
    monkeypatch.setattr("kernels.state.folder", fail)
    found = survey.survey()
    lines = screen.lines(found)
    for label in ("system", "state folder"):
        assert f"  {label:17}  not known (RuntimeError: Could not determine home directory.)" in lines
    assert found.works and found.system is None and found.state is None


def test_only_variables_that_steer_are_told() -> None:
    environment = {"MALLOC_ARENA_MAX": "1", "LD_PRELOAD": "x.so", "OMP_NUM_THREADS": "2", "PATH": "/bin"}
    about = system(environment=environment)
    assert about.malloc_variables == {"LD_PRELOAD": "x.so", "MALLOC_ARENA_MAX": "1"}
    assert about.variables == {"OMP_NUM_THREADS": "2"}
