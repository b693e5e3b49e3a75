"""Processors, memory and malloc as the doctor tells them, read from folders made for the purpose."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels import build, steering
from kernels.doctor import allocator, perf, screen, survey, system
from kernels.doctor.system import Cache, Cores, HugePages, Node


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
    found = system.cores(tmp_path)
    assert (found.limited, found.quota) == (limited, quota)


@pytest.mark.parametrize(
    ("cores", "text"),
    [
        (Cores(8, (0, 1, 2, 5), True, 1.5), "may use 0-2,5 of 8; cgroup quota: 1.5 cores"),
        (Cores(8, (3,), False, None), "may use 3 of 8; cgroup quota: none"),
        (Cores(8, None, None, None), "may use not known which of 8; cgroup quota: not known"),
    ],
)
def test_cores_as_a_person_reads_them(cores: Cores, text: str) -> None:
    assert screen._cores(cores) == text


def cache(core: int, index: int, level: int, kind: str, size: str, shared: str) -> dict[str, str]:
    folder = f"sys/devices/system/cpu/cpu{core}/cache/index{index}"
    facts = {"level": str(level), "type": kind, "size": size, "shared_cpu_list": shared}
    return {f"{folder}/{name}": text + "\n" for name, text in facts.items()}


def test_caches_of_a_kind_are_told_once_with_who_shares_each(tmp_path: Path) -> None:
    for core in range(12):  # two-digit cores: in the order of their numbers
        pair, half = f"{core // 2 * 2}-{core // 2 * 2 + 1}", "0-5" if core < 6 else "6-11"
        tree(tmp_path, cache(core, 0, 1, "Data", "48K", str(core)))
        tree(tmp_path, cache(core, 2, 2, "Unified", "1M", pair))
        tree(tmp_path, cache(core, 3, 3, "Unified", "32768K", half))
    tree(tmp_path, cache(0, 4, 4, "Unified", "?", "0-11"))
    found = system.caches(tmp_path)
    assert found[0] == Cache(1, "data", 48 << 10, tuple(map(str, range(12))))
    assert found[2] == Cache(3, "unified", 32 << 20, ("0-5", "6-11"))
    assert screen._caches(found) == (
        "L1d 48 KiB for each core; L2 1 MiB for each of 6 groups like 0-1; L3 32 MiB for each of 2 groups like 0-5"
    )


def test_numa_nodes(tmp_path: Path) -> None:
    folder = "sys/devices/system/node"
    tree(tmp_path, {f"{folder}/node10/cpulist": "4-7", f"{folder}/node2/cpulist": "0-3\n"})
    tree(tmp_path, {f"{folder}/node2/meminfo": "Node 2 MemTotal:  2097152 kB\nNode 2 MemFree: 1 kB\n"})
    found = system.nodes(tmp_path)
    assert found == (Node(2, "0-3", 2 << 30), Node(10, "4-7", None))
    assert screen._nodes(found) == "2: 0-3 2 GiB; 4-7"


def test_huge_pages(tmp_path: Path) -> None:
    mm = "sys/kernel/mm"
    tree(tmp_path, {f"{mm}/transparent_hugepage/enabled": "always [madvise] never\n"})
    tree(tmp_path, {f"{mm}/hugepages/hugepages-2048kB/nr_hugepages": "512\n"})
    found = system.huge_pages(tmp_path)
    assert found == HugePages("madvise", None, {2 << 20: 512})
    assert screen._huge_pages(found) == "transparent: madvise; defrag: not known; reserved: 512 of 2 MiB"


def test_a_system_without_the_files_tells_nothing(tmp_path: Path) -> None:
    assert system.caches(tmp_path) == () and system.nodes(tmp_path) == ()
    assert system.huge_pages(tmp_path) == HugePages(None, None, None)
    assert perf.rights(tmp_path).paranoid is None
    assert screen._huge_pages(HugePages(None, None, None)) == ""


def test_a_fact_that_raises_is_not_told_with_what_it_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setitem(survey.SYSTEM, "caches", fail)
    monkeypatch.setattr("kernels.state.folder", fail)
    found = survey.survey()
    lines = screen.lines(found)
    for label in ("caches", "state folder"):
        assert f"  {label:17}  not known (RuntimeError: Could not determine home directory.)" in lines
    assert found.works and found.system.caches is None and found.state is None


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


@pytest.mark.skipif(not (allocator._libc() or "").startswith("glibc"), reason="__libc_malloc is glibc's")
def test_a_preloaded_malloc_is_found(tmp_path: Path) -> None:
    source, library = tmp_path / "malloc.c", tmp_path / "libjemalloc.so.2"
    source.write_text(MALLOC)
    subprocess.run([build.compiler()[0], "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    code = "from kernels.doctor.allocator import allocator; print(allocator().malloc)"
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
    assert allocator.allocator(environment).variables == {"LD_PRELOAD": "x.so", "MALLOC_ARENA_MAX": "1"}
    assert steering.variables(steering.TUNING, environment) == {"OMP_NUM_THREADS": "2"}
