"""What a step is made of: its calls with their rows, timed as they come, or kept to be replayed in order.

Standard library alone, and Python 3.6. A row is words: a layer and what is done for it, such as `fc1 forward`
(forward, activation, activation gradient, dgrad, wgrad, bias gradient, update), or a network's own `loss`,
`free gradients`, `parameter copy`, `layout`. A span is a dict of `start` and `end` (monotonic nanoseconds),
`name`, `rows` (several where one call serves several; none where nothing says which), `column` (what kind of
work it is, or None: then its symbols say) and, where the tracer tells them, `thread` (of the system), `bytes` (of
all its operands), `part` (true of what helps a span that is told too) and `product` (how much of the products of each
of its rows a call makes: 1 of one that makes them whole).
"""

import os
import resource
import select
import time

THREAD = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # Linux alone tells of one
CALIBRATE = "kernelgap calibration"  # an annotation whose monotonic start is known
PATIENCE = 5.0  # seconds that perf has to answer
# Scopes: ours, Keras's, its functions'.
LOSSES = ("loss", "compile_loss", "sparse_categorical_crossentropy", "binary_crossentropy", "mean_squared_error")


def now():
    """Monotonic nanoseconds, as perf's -k CLOCK_MONOTONIC."""
    return int(time.monotonic() * 1e9)


def run_delay(folder="/proc/self/task"):
    """Nanoseconds that all threads of this process were queued for so far; None where this system does not tell."""
    times = by_thread(folder).values()
    return sum(delay for _, delay in times) if any(ran for ran, _ in times) else None


def by_thread(folder="/proc/self/task"):
    """Nanoseconds that each thread of this process ran so far, and was queued for."""
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
    """How many threads have worked since: those that ran for a tenth or more of what the busiest did; 1 where the
    system does not tell."""
    ran = [now - before.get(task, (0, 0))[0] for task, (now, _) in by_thread(folder).items()]
    most = max(ran) if ran else 0
    return sum(x * 10 >= most for x in ran) if most > 0 else 1


def blocked(since=None):
    """What a step waited voluntarily: wall less processor time less what all threads were queued for, as
    micro/worker/run_queue.py has it. Without `since` the clocks themselves; with them, nanoseconds: 0 where the calling
    thread never gave its core up, all that was not run where this system does not tell what is queued for."""
    clocks = (now(), int(time.process_time() * 1e9), run_delay(), resource.getrusage(THREAD).ru_nvcsw)
    return clocks if since is None else waited(since, clocks)


def waited(since, until):
    """Nanoseconds between two readings of the clocks of `blocked`."""
    wall, cpu = (until[i] - since[i] for i in (0, 1))
    if None in (since[2], until[2]):
        return max(0, wall - cpu)
    return 0 if since[3] == until[3] else max(0, wall - cpu - (until[2] - since[2]))


def ran_and_queued(since, until):
    """Nanoseconds between two readings of the clocks of `blocked` that this process ran, and that its threads were
    queued for; None where this system does not tell."""
    if None in (since[2], until[2]):
        return None
    return until[1] - since[1], max(0, until[2] - since[2])  # less for a thread that has ended


def stagger():
    """Up to a millisecond of work, about, so that samples do not begin with the first step."""
    for _ in range(100 * ord(os.urandom(1))):
        pass


def faulted():
    """Pages that this process was given so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def inside():
    """Nanoseconds that this process was in the operating system so far."""
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_stime * 1e9)


class Steps(object):
    """A model's calls go through here, `do(rows, column, call, ...)`: as they are, timed, or kept."""

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
        """The spans of what `run` does."""
        self.spans = []
        try:
            run()
            return self.spans
        finally:
            self.spans = None

    def record(self, call):
        """The calls that `call` makes, to be made again: (rows, column, what to call)."""
        self.calls = []
        try:
            call()
            return self.calls
        finally:
            self.calls = None


def calibrated(spans, moment):
    """Spans of another clock on the monotonic one, by the annotation that began at `moment` on that."""
    (mark,) = [span for span in spans if span["name"] == CALIBRATE][:1]
    shift = moment - mark["start"]
    rest = [span for span in spans if span["name"] != CALIBRATE]
    return [dict(span, start=int(span["start"] + shift), end=int(span["end"] + shift)) for span in rest]


class Gate(object):
    """perf, told through its FIFOs when to look; without any, nothing."""

    def __init__(self, fifos):
        # Both ways, so that neither end waits for the other to open.
        self._handles = [os.open(path, os.O_RDWR) for path in fifos or ()]

    def say(self, word):
        """Until perf has answered. Raises OSError."""
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
    """`count` steps between two marks, each with its start and end, its page faults and its time in the operating
    system; spans where asked for and known."""
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
    """Each call of a recorded `step`, in order and again: seconds by call and repetition, and what it was."""
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
