"""Clocks of steps, and calls of a step with their rows: timed as spans, or recorded for a replay.

For Python 3.6, with the standard library only. A row names a layer and its role (forward, activation, activation
gradient, dgrad, wgrad, bias gradient, update), such as `fc1 forward`, or a network's `loss`, `free gradients`,
`parameter copy`, `layout`. A span is a dict of `start` and `end` (monotonic nanoseconds), `name`, `rows` (all that the
call serves; empty if unknown), `column` (kind of work; None: derived from sampled symbols) and, if the tracer records
them, `thread` (id of the operating system), `bytes` (of all operands), `part` (true if it helps another span),
`product` (the share of each row's products that the call computes, 1 for all) and `background` (true if it is about
its own thread only).
"""

import os
import resource
import select
import time

THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # only Linux has usage by thread
CALIBRATE = "kernelgap calibration"  # an annotation whose monotonic start is known
PATIENCE = 5.0  # seconds to wait for perf's answer
# Scopes of the loss: the suite's, Keras's, and those of Keras's loss functions.
LOSSES = ("loss", "compile_loss", "sparse_categorical_crossentropy", "binary_crossentropy", "mean_squared_error")


def now():
    """Return monotonic nanoseconds, the clock of perf's -k CLOCK_MONOTONIC."""
    return int(time.monotonic() * 1e9)


def run_delay(folder="/proc/self/task"):
    """Return nanoseconds that this process's threads were queued so far, summed; None if not reported."""
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
    """Return the number of threads that ran since `before`, a tenth of the busiest at least; 1 if unknown."""
    ran = [now - before.get(task, (0, 0))[0] for task, (now, _) in by_thread(folder).items()]
    most = max(ran) if ran else 0
    return sum(x * 10 >= most for x in ran) if most > 0 else 1


def blocked(since=None):
    """Return nanoseconds blocked since the reading `since`; without `since`, a reading of the clocks.

    Wall time minus CPU time minus queueing of all threads, as in micro/worker/run_queue.py; 0 if the calling thread
    never blocked. If queueing is not reported, wall time minus CPU time.
    """
    clocks = (now(), int(time.process_time() * 1e9), run_delay(), resource.getrusage(THREAD).ru_nvcsw)
    return clocks if since is None else waited(since, clocks)


def waited(since, until):
    """Return nanoseconds blocked between two readings of `blocked`."""
    wall, cpu = (until[i] - since[i] for i in (0, 1))
    if None in (since[2], until[2]):
        return max(0, wall - cpu)
    return 0 if since[3] == until[3] else max(0, wall - cpu - (until[2] - since[2]))


def ran_and_queued(since, until):
    """Return nanoseconds run and queued between two readings of `blocked`; None if not reported."""
    if None in (since[2], until[2]):
        return None
    return until[1] - since[1], max(0, until[2] - since[2])  # ended threads no longer count, so it may shrink


def stagger():
    """Spin for a random time of about a millisecond at most, so that samples are not aligned with steps."""
    for _ in range(100 * ord(os.urandom(1))):
        pass


def faulted():
    """Return the page faults of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def inside():
    """Return the system CPU time of this process so far, in nanoseconds."""
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_stime * 1e9)


class Steps(object):
    """Executor of a model's calls, `do(rows, column, call, ...)`, which may time or record them."""

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
        """Run `run` and return the spans of its calls."""
        self.spans = []
        try:
            run()
            return self.spans
        finally:
            self.spans = None

    def record(self, call):
        """Run `call` and return the operations that it recorded for a replay: (rows, column, function)."""
        self.calls = []
        try:
            call()
            return self.calls
        finally:
            self.calls = None


def calibrated(spans, moment):
    """Return spans shifted to the monotonic clock: the CALIBRATE annotation began at `moment`."""
    (mark,) = [span for span in spans if span["name"] == CALIBRATE][:1]
    shift = moment - mark["start"]
    rest = [span for span in spans if span["name"] != CALIBRATE]
    return [dict(span, start=int(span["start"] + shift), end=int(span["end"] + shift)) for span in rest]


class Gate(object):
    """Control of perf through its FIFOs; does nothing without FIFOs."""

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
    """Run `count` steps; return their times and page faults, and spans if requested and supported."""
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
    """Record a step and replay its calls in order; return the calls, and seconds by repetition and call."""
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
