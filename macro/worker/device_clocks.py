"""Clocks of a device that works steps off while the next are asked for, as programs ask for them: nobody waits until
the last of a block.

In the style of Python 3.6. `begin` waits for what was asked before; `mark` stands behind each step; `end` waits, and
gives nanoseconds of each step, from mark to mark, by the device; None where it has no clock that can be read so.
"""

import time

FIRST = 2  # steps under a profiler before those that it is asked for: it sets itself up in the first
STEPS = "kernelgap steps"  # the annotation around those that a profiler sees, until the last is done


def block(clock, call, count):
    """So many calls, one behind the other; nanoseconds of each, or None."""
    clock.begin()
    for _ in range(count):
        call()
        clock.mark()
    return clock.end()


class Events(object):
    """Of CUDA, through PyTorch: in the stream that its steps are in."""

    def __init__(self, torch):
        self.torch, self.marks = torch, []

    def begin(self):
        self.torch.cuda.synchronize()
        self.marks = []
        self.mark()

    def mark(self):
        event = self.torch.cuda.Event(enable_timing=True)
        event.record()
        self.marks.append(event)

    def end(self):
        self.torch.cuda.synchronize()
        return [int(1e6 * a.elapsed_time(b)) for a, b in zip(self.marks, self.marks[1:])]

    def peak(self):
        """Bytes that its arrays took at most."""
        return self.torch.cuda.max_memory_allocated()


class Marks(object):
    """Of a device of the suite's own, which has marks in its stream."""

    def __init__(self, device):
        self.device, self.marks, self.most = device, [], 0
        self.pool = device.cp.get_default_memory_pool()

    def begin(self):
        self.device.sync()
        self.marks = []
        self.mark()

    def mark(self):
        self.marks.append(self.device.mark())
        self.most = max(self.most, self.pool.used_bytes())

    def end(self):
        self.device.sync()
        return [int(1e9 * self.device.between(a, b).wall) for a, b in zip(self.marks, self.marks[1:])]

    def peak(self):
        """Bytes that its arrays took at most, between steps: of what is freed within one nothing is known."""
        return self.most


class Waits(object):
    """None of its own: `wait` returns when all that was asked for is done."""

    def __init__(self, wait, peak):
        self.wait, self.peak = wait, peak

    def begin(self):
        self.wait()

    def mark(self):
        pass

    def end(self):
        self.wait()


class Played(object):
    """Of a stand-in, which is this processor: a test of the way."""

    def begin(self):
        self.marks = [time.perf_counter()]

    def mark(self):
        self.marks.append(time.perf_counter())

    def end(self):
        return [int(1e9 * (b - a)) for a, b in zip(self.marks, self.marks[1:])]

    def peak(self):
        return 0
