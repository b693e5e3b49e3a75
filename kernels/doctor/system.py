"""Processors that this process may use, their caches and their memory, as Linux reports them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kernels.cgroup import quota
from kernels.textfile import ROOT, number, read


@dataclass(frozen=True, slots=True)
class Cores:
    """Logical processors, and limits of their use."""

    present: int | None
    affinity: tuple[int, ...] | None
    limited: bool | None  # None: not known
    quota: float | None  # processors' worth of time that the cgroup allows


@dataclass(frozen=True, slots=True)
class Cache:
    """Caches of one kind."""

    level: int
    kind: str
    size: int  # bytes of each
    shared: tuple[str, ...]  # processors that share each cache, as "0-1"


@dataclass(frozen=True, slots=True)
class Node:
    """A NUMA node; memory in bytes."""

    node: int
    processors: str | None
    memory: int | None  # bytes


@dataclass(frozen=True, slots=True)
class HugePages:
    """Settings of huge pages; None: not known."""

    transparent: str | None
    defrag: str | None
    reserved: dict[int, int] | None  # number of pages by bytes of a page


def cores(root: Path = ROOT) -> Cores:
    affinity = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None
    return Cores(os.cpu_count(), affinity, *quota(root))


def caches(root: Path = ROOT) -> tuple[Cache, ...]:
    """Return caches, first level first; empty if the system does not report them."""
    sharers: dict[tuple[int, str, int], dict[str, None]] = {}
    folders = (root / "sys/devices/system/cpu").glob("cpu[0-9]*/cache/index*")
    for folder in sorted(folders, key=lambda path: (len(str(path)), str(path))):
        level, size = number(folder / "level"), _size(read(folder / "size") or "")
        if level is not None and size is not None:
            key = level, (read(folder / "type") or "unknown").lower(), size
            sharers.setdefault(key, {})[read(folder / "shared_cpu_list") or "not known"] = None
    return tuple(Cache(*key, tuple(sharers[key])) for key in sorted(sharers))


def _size(text: str) -> int | None:
    """Return the bytes of a size such as "48K"."""
    digits, unit = (text[:-1], text[-1]) if text[-1:] in ("K", "M", "G") else (text, "")
    return int(digits) << {"": 0, "K": 10, "M": 20, "G": 30}[unit] if digits.isdigit() else None


def nodes(root: Path = ROOT) -> tuple[Node, ...]:
    """Return NUMA nodes; empty if the system does not report them."""
    numa_nodes = []
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        lines = (read(folder / "meminfo") or "").splitlines()
        total = next((line.split() for line in lines if "MemTotal:" in line), [])
        memory = int(total[3]) * 1024 if len(total) > 3 and total[3].isdigit() else None
        numa_nodes.append(Node(int(folder.name[4:]), read(folder / "cpulist"), memory))
    return tuple(sorted(numa_nodes, key=lambda node: node.node))


def huge_pages(root: Path = ROOT) -> HugePages:
    folder = root / "sys/kernel/mm"
    reserved = {}
    for size in sorted((folder / "hugepages").glob("hugepages-*kB")):
        pages, kilobytes = number(size / "nr_hugepages"), size.name[10:-2]
        if pages is not None and kilobytes.isdigit():
            reserved[int(kilobytes) * 1024] = pages
    transparent = folder / "transparent_hugepage"
    return HugePages(_chosen(transparent / "enabled"), _chosen(transparent / "defrag"), reserved or None)


def _chosen(path: Path) -> str | None:
    """Return the word in brackets, as in "always [madvise] never"."""
    text = read(path) or ""
    return text.partition("[")[2].partition("]")[0] or None
