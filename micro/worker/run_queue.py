"""How much of a visit was lost to other processes, and how much of it the kernel itself waited."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import build

if TYPE_CHECKING:
    from kernels.problem import Array

SOURCE = Path(__file__).with_name("run_queue.c")
TASKS, SCHEDSTAT = "/proc/self/task", "/proc/self/schedstat"


@dataclass(frozen=True)
class Charged:
    """Of each visit, in seconds: what it took by the processor's clock, what others took of it, what it waited."""

    took: Array
    lost: Array
    waited: Array


def charged(wall: Array, cpu: Array, queued: Array) -> Charged:
    """`cpu`: processor time of all threads of the process; `queued`: what the run queue and the hypervisor can have
    taken at most, infinite for a visit whose thread never gave its core up.

    What the process ran is the kernel's, whichever of its threads did it, on this core or on another: it never takes
    less. Of the rest of the wall, that the process did not run, what it was queued for was lost, and what is left it
    waited voluntarily: that is the kernel's too. Where several threads ran at once and processor time exceeds
    the wall, nothing is left. Threads of one kernel that are queued behind each other lose nothing either: their core
    ran the process all along. A device without processor time (NaN) has neither losses nor waits."""
    import numpy as np

    idle = np.fmax(wall - cpu, 0.0)
    lost = np.minimum(queued, idle)
    return Charged(cpu + (idle - lost), lost, idle - lost)


def stolen(wall: Array, waited: Array, share: float) -> Array:
    """Seconds of these waits that were the hypervisor's, which stole this `share` of a look: of each visit that share,
    at most all that it waited. What a visit without a wait had stolen is in what it lost already."""
    import numpy as np

    taken: Array = np.minimum(waited, share * wall)
    return taken


@functools.cache
def library() -> Any:
    """run_queue.c, loaded. Raises Unavailable, BuildError."""
    loaded = build.load(SOURCE)
    loaded.queue_begin.restype = ctypes.c_int64
    loaded.queue_end.restype, loaded.queue_end.argtypes = ctypes.c_double, (ctypes.c_int64,)
    return loaded


def open_tasks(folder: str = TASKS) -> bool:
    """Find the threads there are; whether this system tells what they are queued for."""
    return bool(library().queue_open(folder.encode()))


def close_tasks() -> None:
    """Give their files back."""
    library().queue_close()


@functools.cache
def available(file: str = SCHEDSTAT) -> bool:
    """Whether this system tells what a process is queued for. A container's own kernel (gVisor), one built without
    CONFIG_SCHED_INFO and other systems than Linux do not."""
    try:
        return int(Path(file).read_text().split()[0]) > 0
    except (OSError, ValueError, IndexError):
        return False
