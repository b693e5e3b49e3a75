"""A simulated device with a scripted clock and a journal, which shows the order of a measurement.

The device stands in for a CPU, or as `fake:KIND` for another kind, and runs that kind's variants. Each variant keeps
its name, writes the operation's reference to every output, and takes the scripted time; `faults` maps steps of the
journal to exceptions that they raise."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import TYPE_CHECKING, Any

from kernels import devices
from kernels.devices.base import Elapsed, Limits, V
from kernels.devices.cpu import Cpu
from kernels.devices.kind import ALIGNMENT, Kind
from kernels.errors import UsageError
from kernels.launch import Launch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kernels.problem import Array, Problem

NAME = "fake"
QUEUE = 512  # kernels behind a hold
PEAKS = ("fma", "mma")
CACHES = (32 << 10, 1 << 20, 32 << 20)


def kind(index: str = "") -> Kind:
    """Return the kind `index` (default cpu) as simulated, with samples made step by step.

    Raises UsageError if `index` is no kind of device."""
    playable = [name for name in devices.kinds() if name != NAME]
    if index not in ("", *playable):
        raise UsageError(f"--device {NAME}:{index}: it can simulate only {', '.join(playable)}")
    played = devices.kind_of(index or "cpu")
    return dataclasses.replace(
        played,
        name=NAME,
        first=f"{NAME}:{index}" if index else NAME,
        visit="held",
        queue=QUEUE,
        alignment=ALIGNMENT,
        caches=played.caches or CACHES,
        profiler="perf",
        scripted=True,
    )


def open_device(index: str = "") -> Fake:
    """Open a simulated device. Raises UsageError for an unknown kind."""
    device = Fake()
    device.kind = kind(index)
    device.name = f"{NAME}:{index}" if index else NAME
    return device


def script(variant: str, problem: Problem) -> float:
    """Return a launch's seconds: 1 us + FLOPs at 100 GFLOP/s + bytes at 10 GB/s, up to 20 % more by name.

    Operations that measure an arithmetic peak take half of that time, so that no kernel exceeds its ceiling."""
    digest = hashlib.sha256(f"{problem.name}/{variant}".encode()).digest()
    share = 0.5 if problem.op in PEAKS else 1.0
    return share * (1e-6 + problem.flops / 100e9 + problem.bytes / 10e9) * (1 + digest[0] / 1280)


class Fake(Cpu):
    """A device with host memory and scripted time, on which seeded noise varies each launch by 0.5 %."""

    name = NAME

    def __init__(
        self,
        seconds: Callable[[str, Problem], float] = script,
        faults: dict[str, Exception] | None = None,
        noise: float = 0.005,
    ) -> None:
        import numpy as np

        self.kind = kind()
        self.journal: list[str] = []
        self._seconds = seconds
        self._faults = faults or {}
        self._noise = noise
        self._rng = np.random.default_rng(7)
        self._now = 0.0
        self._shut = False
        self._fresh: set[int] = set()

    def _step(self, word: str) -> None:
        self.journal.append(word)
        if word in self._faults:
            raise self._faults[word]

    def adopt(self, variant: V) -> V:
        """Return a variant of the same name and work, which writes the reference if inputs are new."""

        def prepare(problem: Problem, device: object, setting: object) -> Callable[[Sequence[Array]], Launch]:
            self._step(f"prepare {variant.name}")
            seconds = self._seconds(variant.name, problem)

            def bind(buffers: Sequence[Array]) -> Launch:
                def call() -> None:
                    self._step(f"launch {variant.name}")
                    self._answer(problem, buffers)
                    self._now += seconds * float(self._rng.lognormal(0, self._noise))

                return Launch(call)

            return bind

        row: Any = variant  # a Variant, which has more fields than Row
        twin: V = dataclasses.replace(
            row,
            device=self.kind.name,
            prepare=prepare,
            missing=lambda: None,
            parts=lambda problem: (),
            kernel=lambda: (None, None),
        )
        return twin

    def _answer(self, problem: Problem, buffers: Sequence[Array]) -> None:
        ranges = [(x.ctypes.data, x.ctypes.data + x.shape[0] * x.strides[0]) for x in buffers]
        fresh = {address for address in self._fresh if any(first <= address < last for first, last in ranges)}
        if fresh:
            self._fresh -= fresh
            views = dict(zip((o.name for o in problem.operands()), buffers, strict=True))
            indices = {o.name for o in problem.operands() if o.below}
            given = {name: view if name in indices else self.get(view) for name, view in views.items()}
            answers = problem.reference(given)
            for name, answer in answers.items():
                Cpu.put(self, views[name], answer)

    def put(self, view: Array, array: Array) -> None:
        super().put(view, array)
        self._fresh.add(view.ctypes.data)

    def sync(self) -> None:
        self._step("sync")

    def mark(self) -> Any:
        self._step("mark")
        return self._now

    def between(self, start: Any, end: Any) -> Elapsed:
        self._step("between")
        return Elapsed(end - start, end - start)

    def flush(self) -> None:
        self._step("flush")

    def passed(self, mark: Any) -> bool:
        return not self._shut

    def hold(self) -> None:
        self._shut = True
        self._step("hold")

    def release(self) -> None:
        self._shut = False
        self._step("release")

    def state(self) -> dict[str, float]:
        return {}

    def describe(self) -> dict[str, Any]:
        return {"model": "scripted clock", "vendor": "fake", "isa": [], "caches": list(self.limits().caches)}

    def limits(self) -> Limits:
        return Limits(memory=8 << 30, cores=2, caches=CACHES)
