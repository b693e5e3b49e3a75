"""What the compiled loop counts as a kernel's time."""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np

from kernels.launch import Launch
from micro.worker import visits

ENOUGH = 0.02  # seconds of processor time


def test_processor_time_is_that_of_all_threads_of_the_process() -> None:
    """A helper's beside its caller's, who both compute at once where there are two cores."""
    ran: list[float] = []

    def work() -> None:
        square, began = np.ones((200, 200), np.float32), time.thread_time()
        while time.thread_time() - began < ENOUGH:
            square @ square
        ran.append(time.thread_time() - began)

    def call() -> None:
        helper = threading.Thread(target=work)
        helper.start()
        work()
        helper.join()

    launch, cell = Launch(call), ctypes.c_int32(-1)
    places = [np.array([id(launch.call)], np.int64)]
    plan = visits.Visits(np.zeros(1, np.int32), places, [1], [0], [False], [0])
    timed = visits.compiled([visits.python_entry(launch)], plan, ctypes.addressof(cell), threaded=False)
    assert len(ran) == 2 and timed.cpu[0] >= sum(ran)
