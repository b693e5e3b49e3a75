"""What NVML reports of clocks, what a query costs, and how far the clocks of short visits are from those of
work that goes on."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from kernels.catalog import find
from kernels.errors import said
from kernels.launch import Launch
from kernels.libs import nvml
from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.probing import clock
from micro.probing.facts import Facts, need

if TYPE_CHECKING:
    from kernels.devices.cuda import Cuda

QUESTION = "What does a question to NVML cost, what does it count, and how far are burst clocks from sustained ones?"
LIMIT = 60.0
PART = 3
RANK = 10
SIZE = 4096
ASKED = 30  # times each question
VISITS, VISIT = 200, 1e-3  # how many; seconds of work in each
REST, SECONDS = 1.0, 3.0  # at rest before, and of work that goes on
BATCH, BEGINNING = 50, 0.1  # products between two marks; seconds
POINTS = 40  # of the course that is told
POWER, THERMAL = 0, 1  # nvmlPerfPolicyType_t
QUESTIONS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("nvmlDeviceGetClockInfo", (nvml.SM,)),
    ("nvmlDeviceGetPowerUsage", ()),
    ("nvmlDeviceGetCurrentClocksEventReasons", ()),
    ("nvmlDeviceGetViolationStatus", (POWER,)),
    ("nvmlDeviceGetViolationStatus", (THERMAL,)),
    ("nvmlDeviceGetTotalEnergyConsumption", ()),
)
FIELDS = {  # nanoseconds for which a reason held the clock down, by the number of their field
    "power cap": 74,
    "thermal": 75,
    "software thermal": 269,
    "hardware thermal": 270,
    "power brake": 271,
}
KINDS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal")  # members of nvmlValue_t, by nvmlValueType_t


def ask() -> dict[str, Any]:
    need("cupy", "pynvml")
    import cupy

    from kernels.devices.cuda import open_device

    facts = Facts()
    gpu = nvml.open_gpu(cupy.cuda.runtime.deviceGetPCIBusId(0))
    facts.ask("idle", gpu.state)
    facts.ask("us a question, idle", partial(costs, gpu))
    facts.ask("counters", partial(counters, gpu))
    device = open_device("0")
    launch = product(device)
    facts.ask("warm", partial(clock.warm, device.cp))
    burst = facts.ask("visits", partial(visits, device, launch, gpu))
    facts.ask("us a question, at work", partial(costs_at_work, device, launch, gpu))
    steady = facts.ask("sustained", partial(sustained, device, launch, gpu))
    facts.ask("counters, after", partial(counters, gpu))
    if burst and steady:
        facts.note("sustained over burst", round(steady["us, last third"] / burst["us a product"], 4))
    return facts.found


def product(device: Cuda) -> Launch:
    """cuBLAS in bf16 on normal numbers: zeros would draw less power."""
    problem = Gemm(SIZE, SIZE, SIZE, "nn", "bf16")
    views = []
    for x in problem.operands():
        block = device.allocate(x.nbytes)
        device.scatter(block, 1, x.dtype)
        views.append(device.view(block, 0, x))
    launch = find("gemm", "cublas").prepare(problem, device, Setting(device=device.name))(views)
    launch.call()
    device.sync()
    return launch


def costs(gpu: nvml.Gpu) -> dict[str, Any]:
    """Median and worst microseconds of each question; what it raises where there is no answer."""
    asked: dict[str, Callable[[], object]] = {"state()": gpu.state, "pace()": gpu.pace}
    for name, which in QUESTIONS:
        asked[" ".join(map(str, (name, *which)))] = partial(raw, gpu, name, *which)
    return {name: cost(question) for name, question in asked.items()}


def raw(gpu: nvml.Gpu, name: str, *which: int) -> Any:
    question: Callable[..., Any] = attrgetter(name)(gpu.api)
    return question(gpu.handle, *which)


def cost(question: Callable[[], object]) -> Any:
    took = []
    for _ in range(ASKED):
        start = time.perf_counter()
        try:
            question()
        except Exception as error:  # NVML's own, or no such function in this binding
            return said(error)
        took.append((time.perf_counter() - start) * 1e6)
    return {"median": round(statistics.median(took), 1), "worst": round(max(took), 1)}


def costs_at_work(device: Cuda, launch: Launch, gpu: nvml.Gpu) -> dict[str, Any]:
    """The same while the device multiplies; `still`: whether it did until the last question."""
    run = device.repeat(launch, BATCH)
    for _ in range(BATCH):
        run()
    end = device.mark()
    at_work = costs(gpu)
    still = not device.passed(end)
    device.sync()
    return at_work | {"still": still}


def counters(gpu: nvml.Gpu) -> dict[str, Any]:
    """What only grows: nanoseconds of violations, millijoules."""
    asked: dict[str, Callable[[], Any]] = {
        "power violation": partial(violation, gpu, POWER),
        "thermal violation": partial(violation, gpu, THERMAL),
        "millijoules": partial(raw, gpu, "nvmlDeviceGetTotalEnergyConsumption"),
        **{name: partial(one_field, gpu, field) for name, field in FIELDS.items()},
    }
    return {name: told(question) for name, question in asked.items()}


def told(question: Callable[[], Any]) -> Any:
    try:
        return question()
    except Exception as error:  # an unknown question, or one that this card does not answer
        return said(error)


def violation(gpu: nvml.Gpu, policy: int) -> int:
    return int(raw(gpu, "nvmlDeviceGetViolationStatus", policy).violationTime)


def one_field(gpu: nvml.Gpu, field: int) -> Any:
    (reading,) = gpu.api.nvmlDeviceGetFieldValues(gpu.handle, [field])
    if reading.nvmlReturn:
        raise gpu.api.NVMLError(reading.nvmlReturn)
    return attrgetter(KINDS[reading.valueType])(reading.value)


def visits(device: Cuda, launch: Launch, gpu: nvml.Gpu) -> dict[str, Any]:
    """Visits as the suite makes them, and the card's state in each."""
    count = max(1, round(VISIT / visit(device, launch, 20, gpu)[0]))
    start = time.perf_counter()
    measured = [visit(device, launch, count, gpu) for _ in range(VISITS)]
    wall = time.perf_counter() - start
    seconds = [took for took, _ in measured]
    return {
        "products": count,
        "us a product": round(statistics.median(seconds) * 1e6, 3),
        "least and most us": [round(x * 1e6, 3) for x in (min(seconds), max(seconds))],
        "share at work": round(sum(seconds) * count / wall, 3),
        **middle([state for _, state in measured]),
    }


def visit(device: Cuda, launch: Launch, count: int, gpu: nvml.Gpu) -> tuple[float, dict[str, float]]:
    """Seconds of a product, and the state while they ran."""
    device.sync()
    device.hold()
    try:
        start = device.mark()
        for _ in range(count):
            launch.call()
        end = device.mark()
    finally:
        device.release()
    state = gpu.state()
    device.sync()
    return device.between(start, end).wall / count, state


def sustained(device: Cuda, launch: Launch, gpu: nvml.Gpu) -> dict[str, Any]:
    """Products without a gap, two batches of them always ahead; the state after each batch."""
    run = device.repeat(launch, BATCH)
    time.sleep(REST)
    before, begun = counters(gpu), time.perf_counter()
    marks, states = [device.mark()], []
    while time.perf_counter() - begun < SECONDS:
        run()
        marks.append(device.mark())
        while len(marks) > 3 and not device.passed(marks[-3]):
            time.sleep(0)
        states.append(gpu.state())
    device.sync()
    wall = time.perf_counter() - begun
    took = [device.between(a, b).wall / BATCH for a, b in itertools.pairwise(marks)]
    ends = list(itertools.accumulate(BATCH * x for x in took))
    first = [x for x, end in zip(took, ends, strict=True) if end <= BEGINNING] or took[:1]
    step = -(-len(took) // POINTS)
    return {
        "us, at first": round(statistics.median(first) * 1e6, 3),
        "us, last third": round(statistics.median(took[2 * len(took) // 3 :]) * 1e6, 3),
        "share at work": round(sum(took) * BATCH / wall, 3),
        **middle(states),
        "course": [
            {"s": round(end, 3), "us": round(x * 1e6, 3), **state}
            for end, x, state in zip(ends[::step], took[::step], states[::step], strict=True)
        ],
        "grew": grown(before, counters(gpu)),
    }


def middle(states: list[dict[str, float]]) -> dict[str, Any]:
    """Least, median and most of the clock and of the power."""
    summary = {}
    for name in ("sm_megahertz", "watts"):
        some = [state[name] for state in states if name in state]
        if some:
            summary[name] = [min(some), statistics.median(some), max(some)]
    return summary


def grown(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """By how much each counter that told a number both times."""
    numbers = [name for name in before if not isinstance(before[name], str) and not isinstance(after[name], str)]
    return {name: after[name] - before[name] for name in numbers}
