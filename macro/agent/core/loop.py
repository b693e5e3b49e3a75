"""Request loop of a framework's process; run by path, inside the framework's environment.

    python loop.py ADAPTER JOB READ WRITE PARENT

For Python 3.6, with the standard library only. JOB is a JSON file: network, batch, threads, device, knobs, paths of
weights and data. Requests are JSON lines on the descriptor READ, replies are JSON lines on WRITE, each with a sequence
number and monotonic nanoseconds; the framework may print to 1 and 2. An adapter is a file with

    configure(job)         optional: settings before the framework computes, such as threads
    available()            None, or the reason why it cannot run here, by a trial
    KINDS, LOSSES, OPTIMIZERS
                           optional: supported names; default: dense layers, softmax, sgd
    identity(job)          version, build, libraries, threads, flags of the framework
    build(job)             an object with forward(), gradient(), step(), each complete when it returns;
                           outputs() of forward(), loss(), gradients(), parameters() in the suite's layout, work():
                           its parameters, batch and type; on an asynchronous device clock: ../device_clocks.py
    trace(model, run)      optional: returns the spans of run(), see recorder.py
    profile(model, call, count, path)
                           optional: writes a trace of `count` calls on a device, in Chrome's format;
                           returns the reason of a failure, or None
    record(model, run)     optional: returns the calls of run() for a replay: (rows, column, call)
"""

import ctypes
import importlib.util
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
import zlib

import recorder  # beside this file

PR_SET_PDEATHSIG = 1
SPACE = 64 << 10  # bytes: more than the heap has free at the start, less than malloc's threshold for mmap
LONGEST = 400  # characters of an exception
CANARY = b"\x5a" * (1 << 20)
REPORTED = re.compile(
    "(OMP|MKL|KMP|OPENBLAS|ONEDNN|DNNL|XLA|JAX|TF(?!_CLI|_VAR)|KERAS|MXNET|CNTK|ATEN|TORCH|MALLOC|NPROC"
    "|CUDA|CUBLAS|CUDNN|NVIDIA|PYTORCH|TRITON)(_|$)"
)
LIBRARIES = re.compile(
    "/(lib)?(openblas|mkl|dnnl|mkldnn|iomp|gomp|omp|blas|cntk|mxnet|torch_cpu|torch_cuda|tensorflow|cublas|cudnn)[^/]*$",
    re.I,
)
STEPS_NUMBERS = ("wall_ns", "cpu_ns", "system_ns", "faults", "voluntary", "involuntary", "blocked_ns")


class Channel(object):
    """Writer of JSON lines to the driver; ends the process if a script closed or reused the descriptor."""

    def __init__(self, handle):
        self._handle, self._number = handle, 0
        self._same = self._file()

    def _file(self):
        status = os.fstat(self._handle)
        return status.st_dev, status.st_ino

    def send(self, kind, **content):
        self._number += 1
        message = {"kind": kind, "seq": self._number, "t_mono_ns": int(time.monotonic() * 1e9)}
        message.update(content)
        line = (json.dumps(message, default=str) + "\n").encode("utf-8")
        try:
            while line and self._file() == self._same:
                line = line[os.write(self._handle, line) :]
        except BrokenPipeError:
            os._exit(1)  # the driver is gone
        except OSError:
            pass
        if line:
            sys.stderr.write("the program closed files that it had not opened, so it cannot be watched\n")
            sys.stderr.flush()
            os._exit(1)


def plain(error):
    """Return an exception's message on one line, without a library's stack and colors."""
    text = " ".join(re.sub("\x1b\\[[0-9;]*m", "", str(error).partition("[CALL STACK]")[0]).split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def reason(error):
    """Return an exception's type and message on one line."""
    text = plain(error)
    return "%s: %s" % (type(error).__name__, text) if text else type(error).__name__


def load(path):
    """Import the adapter under a module name that no package uses."""
    sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # what adapters import
    spec = importlib.util.spec_from_file_location("kernelgap_adapter", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["kernelgap_adapter"] = module
    spec.loader.exec_module(module)
    return module


def pin(threads):
    """Pin the process to the last allowed cores (the first serve more interrupts); return these cores."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
        return sorted(os.sched_getaffinity(0))
    return None


def scatter():
    """Shift the heap by a random offset in each process.

    Otherwise lengths of paths determine the addresses of arrays: with a name two letters longer, NumPy was reproducibly
    0.6 % slower than itself.
    """
    try:
        malloc = ctypes.CDLL(None).malloc
        malloc.argtypes, malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
        malloc(SPACE + 16 * ord(os.urandom(1)))  # never freed
    except AttributeError:
        pass


def die_with(parent):
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except AttributeError:
        pass
    if os.getppid() != parent:
        sys.exit(0)


def usage():
    counts = resource.getrusage(resource.RUSAGE_SELF)
    return counts.ru_stime, counts.ru_minflt, counts.ru_nvcsw, counts.ru_nivcsw


def busy():
    """Return CPU seconds of all processes so far; 0 if the system does not report them."""
    try:
        with open("/proc/stat") as stream:
            words = [int(word) for word in stream.readline().split()[1:]]
    except (OSError, ValueError):
        return 0.0
    user, nice, system, _, _, irq, softirq = words[:7]
    return (user + nice + system + irq + softirq) / float(os.sysconf("SC_CLK_TCK"))


def canary():
    """Return seconds of a fixed computation, the best of three runs, to detect a slow host."""
    best = None
    for _ in range(3):
        start = time.perf_counter()
        zlib.crc32(CANARY)
        took = time.perf_counter() - start
        best = took if best is None else min(best, took)
    return best


def peak():
    """Return the peak memory of this process, bytes; getrusage would include the parent's."""
    try:
        with open("/proc/self/status") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith("VmHWM:")) * 1024
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def counted(call):
    """Run a call and return its STEPS_NUMBERS: times in nanoseconds, faults, context switches."""
    clocks = recorder.blocked()
    before, cpu, wall = usage(), time.process_time(), time.perf_counter()
    call()
    wall_after, cpu_after, after = time.perf_counter(), time.process_time(), usage()
    return (
        [int((wall_after - wall) * 1e9), int((cpu_after - cpu) * 1e9), int((after[0] - before[0]) * 1e9)]
        + [b - a for a, b in zip(before[1:], after[1:])]
        + [recorder.blocked(clocks)]
    )


def block(clock, call, count):
    """Run `count` calls back to back; return nanoseconds of each by the device's clock, or None."""
    clock.begin()
    for _ in range(count):
        call()
        clock.mark()
    return clock.end()


def steps(call, count, clock=None):
    """Run `count` calls; return STEPS_NUMBERS by column, and the load of other processes.

    With a device's `clock` the calls run back to back, and host numbers are divided evenly.
    """
    extras = {}
    began, others, cpu = time.monotonic(), busy(), time.process_time()
    if clock:
        totals = counted(lambda: extras.update(device_ns=block(clock, call, count)))
        rows = [[number / float(count) for number in totals]] * count
    else:
        rows = [counted(call) for _ in range(count)]
    lasted = max(time.monotonic() - began, 1e-9)
    foreign = max(0.0, (busy() - others) - (time.process_time() - cpu)) / lasted
    columns = dict(zip(STEPS_NUMBERS, [list(column) for column in zip(*rows)]))
    if clock:
        extras["device_peak_bytes"] = clock.peak()
    return dict(columns, foreign=foreign, canary=canary(), peak_bytes=peak(), **extras)


def observed():
    """Return facts that the system reports: variables, thread names, libraries, huge pages, run_delay."""
    facts = {"variables": dict((k, v) for k, v in sorted(os.environ.items()) if REPORTED.match(k))}
    facts["run_delay"] = recorder.run_delay() is not None
    try:
        names = []
        for task in os.listdir("/proc/self/task"):
            with open("/proc/self/task/%s/comm" % task) as stream:
                names.append(stream.read().strip().rstrip("0123456789"))
        facts["tasks"] = dict((name, names.count(name)) for name in sorted(set(names)))
        with open("/proc/self/maps") as stream:
            paths = set(line.split(None, 5)[5].strip() for line in stream if ".so" in line)
        facts["libraries"] = sorted(os.path.basename(path) for path in paths if LIBRARIES.search(path))
        with open("/sys/kernel/mm/transparent_hugepage/enabled") as stream:
            facts["huge_pages"] = re.search(r"\[(\w+)\]", stream.read()).group(1)
    except (OSError, AttributeError):
        pass
    return facts


def norm(array):
    import numpy

    return float(numpy.sqrt(numpy.sum(numpy.asarray(array, numpy.float64) ** 2)))


def equal(model, path, counts):
    """Return losses and gradient norms; save outputs, gradients and weights after `counts` steps."""
    import numpy

    kept = {"outputs": numpy.array(model.outputs())}  # copied: later passes reuse the model's buffer
    losses, gradients = [float(model.loss())], model.gradients()
    kept.update(("gradient." + name, array) for name, array in gradients.items())
    done = 0
    for count in sorted(counts):
        while done < count:
            model.step()
            done += 1
            if done < 3:
                losses.append(float(model.loss()))
        after = dict(model.parameters(), **(model.state() if hasattr(model, "state") else {}))
        for name, array in after.items():
            kept["after%d.%s" % (count, name)] = array
    numpy.savez(path, **dict((name, numpy.asarray(array)) for name, array in kept.items()))
    norms = dict((name, norm(array)) for name, array in gradients.items())
    return {"losses": losses, "gradient_norms": norms, "arrays": path, "steps": sorted(counts)}


def give_masks(job):
    """Assign the data file's masks to dropout layers, for a comparison of answers."""
    import numpy

    with numpy.load(job["data"]) as data:
        for spec in job["network"]["layers"]:
            name = "mask." + spec["name"]
            if name in data.files:
                spec["mask"] = data[name]


def serve(adapter, job, model, requests, channel):
    """Serve requests until the driver sends `bye` or closes the stream."""
    phases = {"forward": model.forward, "gradient": model.gradient, "step": model.step}
    for line in requests:
        request = json.loads(line)
        what = request["do"]
        if what == "bye":
            channel.send("bye")
            return
        if what == "steps":
            call, clock = phases[request["phase"]], getattr(model, "clock", None)
            channel.send("steps", phase=request["phase"], **steps(call, request["count"], clock))
        elif what == "equal":
            channel.send("equal", **equal(model, request["path"], request["steps"]))
        elif what == "trace":
            call, fifos = phases[request["phase"]], request.get("fifos")
            reply = recorder.traced(adapter, model, call, request["count"], fifos, request["spans"])
            channel.send("traced", **reply)
        elif what == "profile":
            write = getattr(adapter, "profile", lambda *given: "this suite has no GPU profiler for it")
            why_not = write(model, phases[request["phase"]], request["count"], request["path"])
            channel.send("profiled", reason=why_not)
        elif what == "replay":
            call, one_thread = phases[request["phase"]], job["threads"] == 1
            reply = recorder.replayed(adapter, model, call, request["count"], one_thread)
            channel.send("replayed", **reply)


def lacking(adapter, network):
    """Return the layer kinds, loss and optimizer of a network that a framework lacks."""
    lacks = sorted(set(layer["kind"] for layer in network["layers"]) - set(getattr(adapter, "KINDS", ("dense",))))
    if network["loss"] not in getattr(adapter, "LOSSES", ("softmax",)):
        lacks.append("%s loss" % network["loss"])
    if network["optimizer"] not in getattr(adapter, "OPTIMIZERS", ("sgd",)):
        lacks.append(network["optimizer"])
    return lacks


def main(arguments):
    adapter_path, job_path = arguments[:2]
    read, write, parent = map(int, arguments[2:5])
    die_with(parent)
    scatter()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = Channel(write)
    try:
        with open(job_path) as stream:
            job = json.load(stream)
        # On a GPU the framework's threads launch and compile, and may be more than the job's.
        affinity = None if job.get("device", "cpu").startswith("cuda") else pin(job["threads"])
        adapter = load(adapter_path)
        if hasattr(adapter, "configure"):
            adapter.configure(job)
        why_not = adapter.available()
        if why_not:
            channel.send("unavailable", reason=why_not)
            return
        lacks = lacking(adapter, job["network"])
        if lacks:
            channel.send("unavailable", reason="its adapter has no %s" % ", no ".join(lacks), remedy=False)
            return
        if job.get("masks"):
            give_masks(job)
        model = adapter.build(job)
        identity = dict(observed(), affinity=affinity, python=sys.version.split()[0])
        channel.send("hello", **dict(identity, **adapter.identity(job)))
        channel.send("built", **model.work())
        with os.fdopen(read, "r") as requests:
            serve(adapter, job, model, requests, channel)
    except NotImplementedError as error:  # a layer or option that the framework lacks
        channel.send("unavailable", reason=plain(error), remedy=False)
    except ImportError as error:
        channel.send("unavailable", reason=reason(error))
    except Exception as error:  # whatever a framework raises is reported
        traceback.print_exc()
        channel.send("failed", reason=reason(error))


if __name__ == "__main__":
    main(sys.argv[1:])
