"""Calls of a step with their rows, timed as they come, or kept to be replayed in order.

Standard library alone, and Python 3.6. A row is words: a layer and what is done for it, such as `fc1 forward` (forward,
activation, activation gradient, dgrad, wgrad, bias gradient, update), or a network's `loss`, `free gradients`,
`parameter copy`, `layout`. A span is a dict of `start` and `end` (monotonic nanoseconds), `name`, `rows` (several for a
call that serves several; none where unknown), `column` (kind of work, or None: then its symbols show it) and, where the
tracer records them, `thread` (of the system), `bytes` (of all operands), `part` (true if it helps another span) and
`product` (the share of each row's products that a call computes, 1 for all of them).
"""

import os
import resource
import select
import time

THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # only Linux has usage by thread
CALIBRATE = "kernelgap calibration"  # an annotation whose monotonic start is known
PATIENCE = 5.0  # seconds to wait for perf's answer
# Scopes of the loss: ours, Keras's, and its functions'.
LOSSES = ("loss", "compile_loss", "sparse_categorical_crossentropy", "binary_crossentropy", "mean_squared_error")


def now():
    """Return monotonic nanoseconds, as perf's -k CLOCK_MONOTONIC."""
    return int(time.monotonic() * 1e9)


def run_delay(folder="/proc/self/task"):
    """Return nanoseconds that all threads of this process were queued so far; None if not reported."""
    times = by_thread(folder).values()
    return sum(delay for _, delay in times) if any(ran for ran, _ in times) else None


def by_thread(folder="/proc/self/task"):
    """Return {thread: (nanoseconds run, nanoseconds queued)} of this process so far."""
    times = {}
    for task in os.listdir(folder) if os.path.isdir(folder) else ():
        try:
            with open("%s/%s/schedstat" % (folder, task)) as stream:
                ran, delay = [int(word) for word in stream.read().split()[:2]]
            times[task] = ran, delay
        except (OSError, ValueError):  # a thread that has just ended
            continue
    return times


def busy(before, folder="/proc/self/task"):
    """Return how many threads ran for a tenth or more of what the busiest did since; 1 if not reported."""
    ran = [now - before.get(task, (0, 0))[0] for task, (now, _) in by_thread(folder).items()]
    most = max(ran) if ran else 0
    return sum(x * 10 >= most for x in ran) if most > 0 else 1


def blocked(since=None):
    """Return nanoseconds that a step waited voluntarily since `since`; without it the clocks themselves.

    Wall less processor time less what all threads were queued for, as in micro/worker/run_queue.py; 0 if the calling
    thread never gave its core up. Where no queueing is reported, wall less processor time.
    """
    clocks = (now(), int(time.process_time() * 1e9), run_delay(), resource.getrusage(THREAD).ru_nvcsw)
    return clocks if since is None else waited(since, clocks)


def waited(since, until):
    """Return nanoseconds waited between two readings of the clocks of `blocked`."""
    wall, cpu = (until[i] - since[i] for i in (0, 1))
    if None in (since[2], until[2]):
        return max(0, wall - cpu)
    return 0 if since[3] == until[3] else max(0, wall - cpu - (until[2] - since[2]))


def ran_and_queued(since, until):
    """Return nanoseconds run and queued between two readings of `blocked`; None if not reported."""
    if None in (since[2], until[2]):
        return None
    return until[1] - since[1], max(0, until[2] - since[2])  # less for a thread that has ended


def stagger():
    """Work up to a millisecond, about, so that samples do not begin with the first step."""
    for _ in range(100 * ord(os.urandom(1))):
        pass


def faulted():
    """Return the page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def inside():
    """Return nanoseconds that this process spent in the operating system so far."""
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_stime * 1e9)


class Steps(object):
    """Calls of a model, `do(rows, column, call, ...)`: executed as they are, timed, or recorded."""

    def __init__(self):
        self.spans = self.calls = None

    def __call__(self, rows, column, call, *args, **kwargs):
        if self.calls is not None:
            self.calls.append((rows, column, lambda: call(*args, **kwargs)))
        if self.spans is None:
            return call(*args, **kwargs)
        start = now()
        result = call(*args, **kwargs)
        name = getattr(call, "__name__", column)
        span = {"start": start, "end": now(), "name": name, "rows": rows, "column": column}
        if column == "gemm":
            span["product"] = 1.0
        touched = sum(getattr(x, "nbytes", 0) for x in list(args) + list(kwargs.values()))
        self.spans.append(dict(span, bytes=touched) if touched else span)
        return result

    def trace(self, run):
        """Return the spans of what `run` does."""
        self.spans = []
        try:
            run()
            return self.spans
        finally:
            self.spans = None

    def record(self, call):
        """Return the calls that `call` makes, for replay: (rows, column, call)."""
        self.calls = []
        try:
            call()
            return self.calls
        finally:
            self.calls = None


def calibrated(spans, moment):
    """Return spans shifted to the monotonic clock, by the annotation that began at `moment`."""
    (mark,) = [span for span in spans if span["name"] == CALIBRATE][:1]
    shift = moment - mark["start"]
    rest = [span for span in spans if span["name"] != CALIBRATE]
    return [dict(span, start=int(span["start"] + shift), end=int(span["end"] + shift)) for span in rest]


class Gate(object):
    """Control of perf through its FIFOs; without any, nothing."""

    def __init__(self, fifos):
        # Both ways, so that neither end waits for the other to open.
        self._handles = [os.open(path, os.O_RDWR) for path in fifos or ()]

    def say(self, word):
        """Send a command and wait for perf's answer. Raises OSError."""
        if not self._handles:
            return
        control, answer = self._handles
        os.write(control, word + b"\n")
        reply = b""
        while b"ack" not in reply:
            if not select.select([answer], [], [], PATIENCE)[0]:
                raise OSError("perf does not answer")
            reply += os.read(answer, 64)

    def close(self):
        for handle in self._handles:
            os.close(handle)


def traced(adapter, model, call, count, fifos, spans):
    """Return `count` steps' starts, ends, page faults and system time; spans if requested and supported."""
    gate, rows, faults, system = Gate(fifos), [], [], []

    def run():
        gate.say(b"enable")
        try:
            stagger()
            for _ in range(count):
                before, clocks = faulted(), blocked()
                entered, cpu, start = inside(), time.process_time(), now()
                call()
                end, took, left = now(), int((time.process_time() - cpu) * 1e9), inside()
                rows.append([start, end, took, blocked(clocks)])
                system.append(left - entered)
                faults.append(faulted() - before)
        finally:
            gate.say(b"disable")

    try:
        trace = adapter.trace(model, run) if spans and hasattr(adapter, "trace") else run()
    finally:
        gate.close()
    reply = {"steps": rows, "faults": faults, "system_ns": system}
    return dict(reply, spans=trace or [], traces=hasattr(adapter, "trace"))


def replayed(adapter, model, step, count, one_thread):
    """Return seconds by repetition and call of a recorded `step`, replayed in order, and its calls."""
    if not hasattr(adapter, "record"):
        return {"calls": [], "seconds": []}
    calls = adapter.record(model, step)
    clock = time.process_time if one_thread else time.perf_counter
    seconds = []
    for _ in range(count):
        row = []
        for _, _, call in calls:
            start = clock()
            call()
            row.append(clock() - start)
        seconds.append(row)
    return {"calls": [[rows, column] for rows, column, _ in calls], "seconds": seconds}
