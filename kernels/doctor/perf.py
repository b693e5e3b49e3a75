"""The permission of this process to sample the Linux kernel, tested by opening a perf event."""

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
SOFTWARE = 1  # PERF_TYPE_SOFTWARE, of which event 0 is the processor's clock
DISABLED = 1 << 0
SIZE = 64  # bytes: perf_event_attr as the first kernels had it; later ones take it too
REFUSED = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOSYS)


@dataclass(frozen=True, slots=True)
class Rights:
    """Permissions of this process for perf events; None: not known."""

    paranoid: int | None  # kernel.perf_event_paranoid
    kernel_samples: bool | None  # whether samples may include the Linux kernel


def rights(root: Path = ROOT) -> Rights:
    """Return this process's permissions, tested by opening a perf event and closing it again."""
    paranoid = number(root / "proc/sys/kernel/perf_event_paranoid")
    call = CALL.get(platform.machine()) if sys.platform == "linux" and sys.maxsize > 1 << 32 else None
    answer = None if call is None else ask(call)
    return Rights(paranoid, True if answer == 0 else False if answer in REFUSED else None)


def ask(call: int) -> int:
    """Return 0 if this process can open a perf event that includes the Linux kernel, else errno."""
    about = ctypes.create_string_buffer(
        struct.pack("=IIQQQQQ", SOFTWARE, SIZE, 0, 0, 0, 0, DISABLED).ljust(SIZE, b"\0"), SIZE
    )
    anything, alone = -1, -1
    process = ctypes.CDLL(None, use_errno=True)
    handle = process.syscall(ctypes.c_long(call), about, 0, anything, alone, ctypes.c_ulong(0))
    if handle < 0:
        return ctypes.get_errno()
    os.close(handle)
    return 0
