"""The CPU device: the processor that this process runs on."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.cgroup import quota
from kernels.devices.kind import Kind
from kernels.dtypes import BYTES, STORED, decode, drawn, encode, stored_as
from kernels.errors import UsageError

if TYPE_CHECKING:  # needed by open devices alone: plans start without them
    from collections.abc import Callable

    from kernels.devices.base import Elapsed, Limits, V
    from kernels.launch import Launch
    from kernels.pace import Pace
    from kernels.problem import Array, Operand

HUGE_PAGE = 2 << 20  # bytes
NORMALS = (1 << 22) + 64  # numbers that a block repeats: fp32 after 16 MiB and 256 bytes, so that pages differ


def open_device(index: str = "") -> Cpu:
    """Return the only CPU device. Raises UsageError for an index other than 0."""
    if index not in ("", "0"):
        raise UsageError(f"--device cpu:{index}: the only CPU device is cpu; set the number of cores with --threads")
    return Cpu()


class Cpu:
    """The CPU device: memory is a byte array; marks are the wall clock and the process's CPU time."""

    kind: Kind
    name = "cpu"

    def __init__(self) -> None:
        self.kind = KIND

    def adopt(self, variant: V) -> V:
        from kernels.devices.base import written_for

        return written_for(variant, self.kind, self.name)

    def allocate(self, nbytes: int) -> Array:
        import numpy as np

        # NumPy requests huge pages. A large block that starts at a huge page's boundary gets them throughout, so that
        # two processes have the same mix of pages.
        alignment = HUGE_PAGE if nbytes >= 2 * HUGE_PAGE else self.kind.alignment
        block = np.empty(nbytes + alignment, np.uint8)
        start = -block.ctypes.data % alignment
        block[:: os.sysconf("SC_PAGESIZE")] = 0  # first touch here, not in a measurement
        return block[start : start + nbytes]

    def scatter(self, block: Array, seed: int, dtype: str = "fp32", data: str = "normal") -> None:
        elements = block[: block.size // BYTES[dtype] * BYTES[dtype]].view(STORED[dtype])
        some = drawn(seed, min(NORMALS, elements.size), dtype, data)
        for start in range(0, elements.size, NORMALS):
            part = elements[start : start + NORMALS]
            part[:] = some[: part.size]

    def view(self, block: Array, offset: int, operand: Operand) -> Array:
        import numpy as np

        return np.ndarray(operand.shape, STORED[operand.dtype], block, offset, operand.strides)

    def put(self, view: Array, array: Array) -> None:
        view[...] = encode(array, stored_as(view.dtype))

    def get(self, view: Array) -> Array:
        return decode(view)

    def sync(self) -> None:
        pass

    def mark(self) -> tuple[int, int]:
        return time.perf_counter_ns(), time.process_time_ns()

    def passed(self, mark: tuple[int, int]) -> bool:
        return True

    def between(self, start: tuple[int, int], end: tuple[int, int]) -> Elapsed:
        from kernels.devices.base import Elapsed

        return Elapsed((end[0] - start[0]) * 1e-9, (end[1] - start[1]) * 1e-9)

    def overhead(self) -> float:
        return 0.0

    def flush(self) -> None:
        raise NotImplementedError("on a CPU, operands are made cold by rotation: see micro/worker/layout.py")

    def hold(self) -> None:
        pass

    def release(self) -> None:
        pass

    def repeat(self, launch: Launch, count: int) -> Callable[[], object]:
        def run() -> None:
            for _ in range(count):
                launch.call()

        return run

    def pace(self) -> Pace:
        from kernels.pace import Pace

        return Pace()

    def state(self) -> dict[str, float]:
        return {}

    def describe(self) -> dict[str, Any]:
        info = _cpuinfo()
        flags = info.get("flags", "").split()
        return {
            "model": info.get("model name", os.uname().machine),
            "vendor": vendor(),
            "family": info.get("cpu family"),
            "model_number": info.get("model"),
            "isa": [name for name, flag in FLAG.items() if flag in flags],
            "amx": any(flag.startswith("amx") for flag in flags),
            "caches": list(self.limits().caches),
        }

    def limits(self) -> Limits:
        from kernels.devices.base import Limits

        return Limits(memory(), cores(), _caches(), features=features())


# Multiply-add instructions of other types than fp32, by their names in kernels/ops/fma and kernels/ops/mma, and their
# CPU flags.
COARSE = {
    "avx2fp64": "avx2",
    "avx512fp64": "avx512f",
    "avx512fp16": "avx512_fp16",
    "avx512bf16": "avx512_bf16",
    "avx512vnni": "avx512_vnni",
    "avxvnni": "avx_vnni",
    "amxbf16": "amx_bf16",
    "amxint8": "amx_int8",
}
FLAG = {"sse": "sse4_2", "avx": "avx", "avx2": "avx2", "avx512": "avx512f"}


def vendor() -> str:
    """Return the processor's vendor, such as GenuineIntel or AuthenticAMD; "unknown" if not reported."""
    return _cpuinfo().get("vendor_id", "unknown")


def _cpuinfo() -> dict[str, str]:
    """Return the first processor's fields of /proc/cpuinfo; none if the file cannot be read."""
    try:
        text = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def processor() -> str:
    """Return the processor's model and feature flags."""
    info = _cpuinfo()
    return f"{info.get('model name', os.uname().machine)}: {info.get('flags', '')}"


def instruction_sets() -> tuple[str, ...]:
    """Return the processor's vector instruction sets, narrowest first; "native" if none is reported."""
    flags = _cpuinfo().get("flags", "").split()
    return tuple(name for name, flag in FLAG.items() if flag in flags) or ("native",)


def features() -> tuple[str, ...]:
    """Return the processor's low-precision multiply-add instructions, by their names in COARSE."""
    flags = _cpuinfo().get("flags", "").split()
    return tuple(name for name, flag in COARSE.items() if flag in flags)


KIND = Kind(
    "cpu",
    "cpu",
    "cpu",
    ceilings=("fma", "mma", "stream"),
    isas=lambda: instruction_sets(),  # by its name each time, so that a test can replace it
    dtypes=("fp32", "bf16", "int8"),
    profiler="perf",
)


def kind(index: str = "") -> Kind:
    """Return the kind, the same for every index."""
    return KIND


SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


def cores() -> int:
    """Return the number of cores that this process may use, by affinity and the cgroup's quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    _, processors = quota()
    return allowed if processors is None else min(allowed, max(1, int(processors)))


def physical_cores() -> int:
    """Count the physical cores behind `cores()`: two hardware threads of a core count once."""
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(cores())
    return min(cores(), len({_text(SIBLINGS.format(i)) or str(i) for i in allowed}))


CGROUP_MEMORY = (  # limit and usage, second and first version
    ("memory.max", "memory.current"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
)


def memory() -> int:
    """Return the bytes of memory available now, the least of the machine, the cgroup and RLIMIT_AS."""
    page = os.sysconf("SC_PAGE_SIZE")
    free = [page * os.sysconf("SC_PHYS_PAGES")]
    for line in _text("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable"):
            free.append(int(line.split()[1]) * 1024)
    for limit, usage in CGROUP_MEMORY:
        most, used = _text(f"/sys/fs/cgroup/{limit}").strip(), _text(f"/sys/fs/cgroup/{usage}").strip()
        if most.isdigit() and used.isdigit():
            stat = _text(f"/sys/fs/cgroup/{Path(limit).parent / 'memory.stat'}").split()
            files = stat[stat.index("inactive_file") + 1] if "inactive_file" in stat else "0"
            free.append(int(most) - int(used) + int(files))  # files in memory give way
    soft = resource.getrlimit(resource.RLIMIT_AS)[0]
    if soft != resource.RLIM_INFINITY:
        free.append(soft - int((_text("/proc/self/statm").split() or ["0"])[0]) * page)
    return max(0, min(free))


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def _caches() -> tuple[int, ...]:
    sizes = []
    units = {"K": 1 << 10, "M": 1 << 20}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            if (index / "type").read_text().strip() != "Instruction":
                size = (index / "size").read_text().strip()
                sizes.append(int(size[:-1]) * units[size[-1]])
        except (OSError, KeyError, ValueError):
            continue
    return tuple(sorted(sizes)) or (32 << 10, 1 << 20, 32 << 20)
