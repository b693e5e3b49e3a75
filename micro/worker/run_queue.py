"""Time of a sample lost to other processes, and voluntary waits of the kernel."""

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
    """Seconds of each sample: charged to the kernel, and lost to others."""

    took: Array  # by the processor's clock, plus voluntary waits
    lost: Array  # to other processes and the hypervisor
    waited: Array  # voluntarily, part of `took`


def charged(wall: Array, cpu: Array, queued: Array) -> Charged:
    """Split the wall time of samples into time taken, lost and waited.

    `cpu`: processor time of all threads of the process; `queued`: the most that run queue and hypervisor can have
    taken, infinite for a sample whose thread never yielded its core. Wall time beyond `cpu` is lost up to `queued`; the
    remainder is a voluntary wait, which is charged to the kernel like processor time. If the processor time of several
    threads exceeds the wall, there is neither loss nor wait. Threads of a kernel that queue behind each other lose
    nothing, as their core ran the process. A device without processor time (NaN) has neither losses nor waits."""
    import numpy as np

    idle = np.fmax(wall - cpu, 0.0)
    lost = np.minimum(queued, idle)
    return Charged(cpu + (idle - lost), lost, idle - lost)


def stolen(wall: Array, waited: Array, share: float) -> Array:
    """Return the seconds of each sample's voluntary wait that the hypervisor stole.

    `share`: the stolen share of the batch's time, taken of each sample's wall time, at most its wait. Time stolen from
    a sample without a wait is part of its losses."""
    import numpy as np

    taken: Array = np.minimum(waited, share * wall)
    return taken


@functools.cache
def library() -> Any:
    """Load run_queue.c. Raises Unavailable, BuildError."""
    loaded = build.load(SOURCE)
    loaded.queue_begin.restype = ctypes.c_int64
    loaded.queue_end.restype, loaded.queue_end.argtypes = ctypes.c_double, (ctypes.c_int64,)
    return loaded


def open_tasks(folder: str = TASKS) -> bool:
    """Open the scheduler statistics of the process's threads; report whether this system has them."""
    return bool(library().queue_open(folder.encode()))


def close_tasks() -> None:
    """Close the scheduler statistics of the threads."""
    library().queue_close()


@functools.cache
def available(file: str = SCHEDSTAT) -> bool:
    """Report whether this system measures the time a process is queued.

    gVisor, kernels without CONFIG_SCHED_INFO and systems other than Linux do not."""
    try:
        return int(Path(file).read_text().split()[0]) > 0
    except (OSError, ValueError, IndexError):
        return False
