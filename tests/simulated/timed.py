"""A GPU whose time is simulated: what the whole suite takes on one, and what it does when something breaks there.

The device is the suite's own (kernels/devices/cuda.py) on the fake CuPy, with a clock for the GPU and one for the
process that drives it. Kernels take scripted times and compute nothing; all that a process on a real machine waits
for takes time, by COSTS. What the suite asks for the time gets the process' clock.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.devices.base import V
from kernels.devices.cuda import Cuda
from kernels.launch import Launch
from kernels.ops.gemm.problem import FREIVALDS_FLOPS, Gemm
from kernels.pace import Pace
from kernels.problem import Inputs, Problem
from kernels.variant import Variant
from micro.command import everything, session
from micro.contests import memory, transfer
from micro.planning.benchmark import Request
from micro.planning.contest import Case
from micro.worker import check as checking
from micro.worker.client import Died, Local
from micro.worker.contest import OpenContest, WorkerContext
from micro.worker.host import Host
from micro.worker.kernels import Kernels
from micro.worker.messages import Message, R
from micro.worker.process import Workers
from micro.worker.watch import Watch
from tests.simulated.fake_cupy import FakeCupy

SEED = Gemm(1024, 2048, 26752)
MEMORY = 80 << 30
PROCESSOR = 200e9  # FLOP/s in float64 of its cores


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds of the process, as they are expected of a machine with an H100."""

    launch: float = 5e-6
    visit: float = 5e-3
    contest: float = 0.2
    start: float = 3.0  # a worker's, with CuPy's import
    torch: float = 10.0  # its first import in a process
    compilation: float = 1.0  # of a row's first kernel in a process, where it is our own, Numba's or CuPy's
    loading: float = 0.1  # of a library's
    first: float = 0.0  # of what a row compiles or loads only when it is called for the first time in a process
    reference: float = 3.0  # of the seed's product: filled, put, compared; others by their bytes
    nvml: float = 20e-3  # a call
    witness: float = 3e-3  # half of one: copies of a part, its float64 answer
    naming: float = 0.3  # a case under the profiler


def script(variant: str, problem: Problem) -> float:
    """Seconds of one launch: 50 TFLOP/s, 3 TB/s, 2 us, and up to a fifth more, fixed by the name; of a ceiling half."""
    digest = hashlib.sha256(f"{problem.name}/{variant}".encode()).digest()
    share = 0.5 if problem.op in ("fma", "mma") or problem.name.startswith("stream/kind:read") else 1.0
    return share * (2e-6 + problem.flops / 50e12 + problem.bytes / 3e12) * (1 + digest[0] / 1280)


class Memory:
    """Of the device: an address and a size, nothing behind them."""

    def __init__(self, place: int, nbytes: int) -> None:
        self.data, self.nbytes, self.size = SimpleNamespace(ptr=place), nbytes, nbytes

    def __getitem__(self, part: slice) -> Memory:
        first, last, _ = part.indices(self.nbytes)
        return Memory(self.data.ptr + first, last - first)

    def __setitem__(self, part: slice, value: object) -> None:
        pass


class Timed(Cuda):
    """`kernels`: how many a launch of a row enqueues, and whether it has `told`; `seconds`: of a launch of it."""

    def __init__(
        self,
        costs: Costs,
        kernels: Callable[[Variant[Any], Problem], int] = lambda row, problem: 1,
        seconds: Callable[[str, Problem], float] = script,
        told: bool = True,
    ) -> None:
        fake = FakeCupy(MEMORY)
        fake.pace, fake.patient = costs.launch, True
        super().__init__(0, fake)
        self._facts |= {"multiProcessorCount": 132, "l2CacheSize": 50 << 20, "name": b"Timed GPU"}
        self.processors, self.costs, self.kernels, self.seconds = 132, costs, kernels, seconds
        self.told = told
        self._rng, self._known = np.random.default_rng(1), set[str]()
        self._gpu = self  # type: ignore[assignment]
        self._next = 1 << 40

    def facts(self) -> dict[str, Any]:
        return {}

    def link(self) -> float:
        return 63e9

    def wait(self, seconds: float) -> None:
        self.cp.host += seconds

    def _first(self, what: str, seconds: float) -> None:
        """What takes time once in a process."""
        if what not in self._known:
            self._known.add(what)
            self.wait(seconds)

    def adopt(self, variant: V) -> V:
        def prepare(problem: Problem, device: object, setting: object) -> Callable[[Sequence[Any]], Launch]:
            if variant.provider == "torch":
                self._first("torch", self.costs.torch)
            compiled = variant.provider in ("suite", "numba", "cupy")
            self._first(variant.name, self.costs.compilation if compiled else self.costs.loading)
            count = self.kernels(variant, problem)
            each = self.seconds(variant.name, problem) / count

            def call() -> None:
                self._first(f"call {variant.name}", self.costs.first)
                noise = float(self._rng.lognormal(0, 0.003))
                for _ in range(count):
                    self.cp.launch(variant.name, each * noise)
                if problem.op == "transfer" and problem.on_host:
                    self.sync()

            return lambda buffers: Launch(call, capturable=not variant.python, kernels=count * self.told)

        nothing = {"missing": lambda: None, "parts": lambda problem: (), "kernel": lambda: (None, None)}
        return dataclasses.replace(variant, prepare=prepare, **nothing)  # type: ignore[arg-type]

    def allocate(self, nbytes: int) -> Any:
        self._next += nbytes + 512 - nbytes % 512
        return Memory(self._next - nbytes, nbytes)

    def scatter(self, block: Any, seed: int, dtype: str = "fp32", data: str = "normal") -> None:
        pass

    def view(self, block: Any, offset: int, operand: Any) -> Any:
        return None

    def put(self, view: Any, array: Any) -> None:
        pass

    def flush(self) -> None:
        self.cp.launch("sweep", 50e-6)

    def pace(self) -> Pace:
        self.wait(3 * self.costs.nvml)
        return Pace(1980.0, {"power": 0.0, "thermal": 0.0})

    def state(self) -> dict[str, float]:
        self.wait(4 * self.costs.nvml)
        return {"sm_megahertz": 1980.0, "watts": 300.0}

    def names(self, calls: Sequence[Callable[[], object]]) -> list[tuple[str, ...]]:
        self.wait(self.costs.torch + self.costs.naming * len(calls))
        return [("kernel",) for _ in calls]


class TimedKernels(Kernels):
    """The work of a check takes time; an answer is right."""

    def check(self, case: Case, seed: int, evidence: object = None, keep: bool = False) -> checking.Passed:
        device: Any = self.device
        if case not in self._complete:
            self.prepare(case)
        drawn = self._inputs(case.problem.drawn, seed, ())
        known, drawn.probes["dense"] = "dense" in drawn.probes, Inputs({})
        # Of what is known already only the answer is fetched and compared. Else there are float64 products up to
        # FREIVALDS_FLOPS, and beyond them products with vectors: then its bytes tell.
        work = min(case.problem.flops, FREIVALDS_FLOPS) / PROCESSOR
        share = len(case.problem.probes) * case.problem.footprint / (len(SEED.probes) * SEED.footprint)
        device.wait(share * device.costs.reference / 10 if known else work + share * device.costs.reference)
        before = device.cp.host
        self._complete[case]([]).call()
        device.sync()
        self._pilot[case] = device.cp.host - before
        return checking.Passed(0.0, 1.0)


@dataclasses.dataclass(frozen=True)
class TimedWitness:
    """Small copies, some milliseconds of float64 before and behind; an answer is right."""

    device: Timed
    entry: Any
    visit: int
    once: bool

    def write(self) -> None:
        self.device.wait(self.device.costs.witness)

    def keep(self) -> None:
        self.device.wait(self.device.costs.witness)

    def judge(self) -> None:
        pass


class TimedWatch(Watch):
    def __init__(self, device: Timed, watch: Watch) -> None:
        super().__init__(device, watch.layout, watch.seen, watch.under_way)
        self._timed = device

    def _visit(self, visit: int, entry: Any, offsets: Any, turns: Sequence[int]) -> Any:
        self.counts[entry.case] = self.counts.get(entry.case, 0) + 1
        once = any(x.role == "inout" for x in entry.problem.operands())
        yield TimedWitness(self._timed, entry, visit, once)


class TimedContest(OpenContest):
    """The work of a visit takes time."""

    def __init__(self, bench: WorkerContext, cases: Sequence[Case], mine: Sequence[bool], seed: int) -> None:
        device: Any = bench.device
        device.wait(device.costs.contest)
        super().__init__(bench, cases, mine, seed)
        self.watch = TimedWatch(device, self.watch)

    def visit(self, entries: Any, which: Any, *more: Any, **named: Any) -> Any:
        device: Any = self._device
        device.wait(device.costs.visit * len(which))
        return super().visit(entries, which, *more, **named)


class TimedHost(Host):
    def __init__(self, device: Timed) -> None:
        super().__init__(device, 0)
        self.kernels = TimedKernels(device)
        self.bench = dataclasses.replace(self.bench, kernels=self.kernels)


class Simulated:
    """`install` puts the simulated machine in the place of this one; `now` is what its clock says.

    A worker is a device of its own, all on one clock: they take turns."""

    def __init__(self, costs: Costs | None = None, **device: Any) -> None:
        self.costs, self.how = costs or Costs(), device
        self.workers: list[Timed] = []
        self.ended = 0.0  # the clock of those that are gone
        self.faulty: set[str] = set()

    @property
    def now(self) -> float:
        return max([self.ended, *(device.cp.host for device in self.workers)])

    def device(self, name: str) -> Timed:
        made = Timed(self.costs, **self.how)
        made.cp.host = made.cp.clock = self.now + self.costs.start
        made.cp.faulty = self.faulty
        made.name = name
        self.workers.append(made)
        return made

    def install(self, patch: pytest.MonkeyPatch) -> None:
        clock = SimpleNamespace(**{name: getattr(time, name) for name in dir(time) if name[0] != "_"})
        clock.monotonic = clock.perf_counter = clock.time = lambda: self.now
        clock.perf_counter_ns = clock.thread_time_ns = clock.process_time_ns = lambda: round(self.now * 1e9)
        clock.sleep = lambda seconds: None
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in ("micro", "kernels", "reports") and getattr(module, "time", None) is time:
                patch.setattr(module, "time", clock)
        opened = self.device("cuda:0")
        for module in (session, everything, memory, transfer):
            patch.setattr(module, "open_device", lambda name: opened)
        patch.setattr(Request, "_why_not", _why_not)
        patch.setattr("micro.worker.host.OpenContest", TimedContest)
        patch.setattr(Workers, "get", lambda workers, key: self._get(workers, key))
        for name in ("nvml", "torch_cuda"):
            patch.setattr(f"kernels.devices.cuda.{name}.missing", lambda: None)

    def _get(self, workers: Any, key: tuple[Any, ...]) -> Any:
        if key not in workers._alive:
            workers._alive[key] = TimedWorker(self, key[0])
        return workers._alive[key]


def _why_not(asked: Request, problem: Problem, variant: str, device: str) -> str | None:
    from kernels.catalog import find

    row = find(problem.op, variant)
    return row.accepts(problem) if row.device == "cuda" else "a kernel for cpu"


class TimedWorker(Local):
    """Of one device's; what stays with its context goes with it. One clock: it goes on where the others are."""

    def __init__(self, machine: Simulated, name: str) -> None:
        self.machine = machine
        super().__init__(TimedHost(machine.device(name)))

    def receive(self, request: Message[R], patience: float) -> R:
        fake = self.host.device.cp  # type: ignore[attr-defined]
        fake.host = fake.clock = max(self.machine.now, fake.clock)
        before = fake.host
        answer = super().receive(request, patience)
        if fake.host - before > patience:
            raise Died(f"hangs: no reply within {patience:.0f} s")
        return answer

    def close(self) -> None:
        self.machine.ended = self.machine.now
        device: Any = self.host.device
        self.machine.workers.remove(device)


def rounds(result: Any) -> int:
    """Accepted ones."""
    return len(result.samples) - len(result.rejected)
