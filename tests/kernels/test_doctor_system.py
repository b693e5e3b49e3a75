"""Processors, memory and malloc as the doctor tells them, read from folders made for the purpose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import build
from kernels.doctor import perf, screen, survey, system
from kernels.doctor.system import System


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
    found = system.system(tmp_path)
    assert (found.limited, found.quota) == (limited, quota)


@pytest.mark.parametrize(
    ("affinity", "limited", "quota", "text"),
    [
        ((0, 1, 2, 5), True, 1.5, "may use 0-2,5 of 8; cgroup quota: 1.5 cores"),
        ((3,), False, None, "may use 3 of 8; cgroup quota: none"),
        (None, None, None, "may use not known which of 8; cgroup quota: not known"),
    ],
)
def test_cores_as_a_person_reads_them(
    affinity: tuple[int, ...] | None, limited: bool | None, quota: float | None, text: str
) -> None:
    assert screen._cores(System(8, affinity, limited, quota, None, None, None, {}, {})) == text


def test_huge_pages_and_a_system_without_the_files(tmp_path: Path) -> None:
    assert system.system(tmp_path).huge_pages is None and perf.rights(tmp_path).paranoid is None
    tree(tmp_path, {"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n"})
    assert system.system(tmp_path).huge_pages == "madvise"


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


# Allocator


# Like every allocator it exports both: Debian's python3 is not position-independent and shows its own stub of malloc.
MALLOC = """#include <stddef.h>
void *__libc_malloc(size_t), *__libc_memalign(size_t, size_t);
void *malloc(size_t size) { return __libc_malloc(size); }
int posix_memalign(void **block, size_t alignment, size_t size)
{
    *block = __libc_memalign(alignment, size);
    return *block ? 0 : 12;
}
"""


@pytest.mark.skipif(not (system.libc() or "").startswith("glibc"), reason="__libc_malloc is glibc's")
def test_a_preloaded_malloc_is_found(tmp_path: Path) -> None:
    source, library = tmp_path / "malloc.c", tmp_path / "libjemalloc.so.2"
    source.write_text(MALLOC)
    subprocess.run([build.compiler()[0], "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    code = "from kernels.doctor.system import malloc; print(malloc())"
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | more,
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for more in ({"LD_PRELOAD": str(library)}, {"LD_PRELOAD": ""})
    ]
    assert told == ["jemalloc", "glibc"]


def test_only_variables_that_steer_are_told() -> None:
    environment = {"MALLOC_ARENA_MAX": "1", "LD_PRELOAD": "x.so", "OMP_NUM_THREADS": "2", "PATH": "/bin"}
    about = system.system(environment=environment)
    assert about.malloc_variables == {"LD_PRELOAD": "x.so", "MALLOC_ARENA_MAX": "1"}
    assert about.variables == {"OMP_NUM_THREADS": "2"}
