"""Rights of this process to count and sample, found by opening two perf events and closing them again."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

from kernels.textfile import ROOT, number

CALL = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319}  # perf_event_open, little endian
HARDWARE, SOFTWARE = 0, 1  # PERF_TYPE_; of either, event 0: cycles, the processor's clock
DISABLED, NO_KERNEL, NO_HYPERVISOR = 1 << 0, 1 << 5, 1 << 6
SIZE = 64  # bytes: perf_event_attr as the first kernels had it; later ones take it too
REFUSED = (errno.EACCES, errno.EPERM)
NOT_THERE = (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class Rights:
    """Rights to perf events; None: not known."""

    paranoid: int | None  # kernel.perf_event_paranoid
    kernel_samples: bool | None
    hardware: bool | None
    why: str | None = None  # the kernel's answer, if something is not known


def rights(root: Path = ROOT) -> Rights:
    """Open both kinds of events to find whether this process may count in hardware and sample the kernel."""
    paranoid = number(root / "proc/sys/kernel/perf_event_paranoid")
    call = CALL.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
    if call is None:
        return Rights(paranoid, None, None, "not asked on this system")
    counter = ask(call, HARDWARE, NO_KERNEL | NO_HYPERVISOR)
    sample = ask(call, SOFTWARE, 0)
    unclear = [errno.errorcode.get(code, str(code)) for code in (counter, sample) if code]
    hardware = True if counter == 0 else False if counter in NOT_THERE else None
    kernel = True if sample == 0 else False if sample in (*REFUSED, *NOT_THERE) else None
    return Rights(paranoid, kernel, hardware, f"perf_event_open: {', '.join(unclear)}" if unclear else None)


def ask(call: int, kind: int, flags: int) -> int:
    """Return 0 if such an event of this process can be opened, else errno."""
    about = ctypes.create_string_buffer(
        struct.pack("=IIQQQQQ", kind, SIZE, 0, 0, 0, 0, DISABLED | flags).ljust(SIZE, b"\0"), SIZE
    )
    anything, alone = -1, -1
    process = ctypes.CDLL(None, use_errno=True)
    handle = process.syscall(ctypes.c_long(call), about, 0, anything, alone, ctypes.c_ulong(0))
    if handle < 0:
        return ctypes.get_errno()
    os.close(handle)
    return 0
