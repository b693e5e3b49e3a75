"""The binding of PyCUDA against one that writes down what it is asked; what only a GPU can tell is not told here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda, pycuda

CALLER, ITS_OWN = 0x70, 0x104  # addresses of streams


class FakeError(Exception):
    """What PyCUDA calls Error."""


@dataclass
class Fake:
    """Stands where `pycuda.driver` and libcuda would. `current`: the device of CUDA's current context."""

    current: int | None = 0
    fails: str = ""
    status: int = 0
    journal: list[str] = field(default_factory=list)
    entered: list[Context] = field(default_factory=list)

    def say(self, what: str) -> None:
        self.journal.append(what)
        if self.fails and what.startswith(self.fails):
            raise FakeError("invalid something\nmore of it")

    def get_device(self) -> Device:
        if self.current is None:
            raise FakeError("invalid device context")
        return Device(self, self.current)

    def module(self) -> Any:
        return SimpleNamespace(
            Error=FakeError,
            init=lambda: self.say("init"),
            Device=lambda index: Device(self, index),
            Context=SimpleNamespace(
                get_device=self.get_device, get_current=lambda: self.entered[-1] if self.entered else None
            ),
            Stream=lambda flags: self.say(f"stream {flags}") or SimpleNamespace(handle=ITS_OWN),
            module_from_file=lambda path: SimpleNamespace(get_function=lambda name: Kernel(self, path, name)),
            function_attribute=SimpleNamespace(MAX_DYNAMIC_SHARED_SIZE_BYTES="shared"),
        )

    # libcuda
    def cuEventCreate(self, event: Any, flags: Any) -> int:
        event._obj.value = 0x100 + len(self.journal)
        self.journal.append(f"event {flags.value}")
        return self.status

    def cuEventRecord(self, event: Any, stream: Any) -> int:
        self.journal.append(f"record {event.value:#x} on {stream.value:#x}")
        return self.status

    def cuStreamWaitEvent(self, stream: Any, event: Any, flags: Any) -> int:
        assert flags.value == 0
        self.journal.append(f"{stream.value:#x} waits for {event.value:#x}")
        return self.status


@dataclass(frozen=True)
class Device:
    """Equal where its index is, as PyCUDA's."""

    fake: Fake = field(compare=False)
    index: int

    def retain_primary_context(self) -> Context:
        self.fake.say(f"retain {self.index}")
        return Context(self.fake, self.index)


@dataclass(frozen=True)
class Context:
    fake: Fake = field(compare=False)
    index: int

    def push(self) -> None:
        self.fake.say(f"push {self.index}")
        self.fake.entered.append(self)

    def detach(self) -> None:
        self.fake.say(f"detach {self.index}")


class Kernel:
    def __init__(self, fake: Fake, path: str, name: str) -> None:
        self.fake, self.formats = fake, ""
        fake.say(f"load {path} {name}")

    def prepare(self, formats: list[str]) -> None:
        self.formats = "".join(formats)

    def set_attribute(self, name: str, value: int) -> None:
        self.fake.say(f"{name} {value}")

    def prepared_async_call(self, grid: Any, block: Any, stream: Any, *values: Any, shared_size: int) -> None:
        self.fake.say(f"launch {grid} {block} on {stream.handle:#x} {self.formats} {values} {shared_size}")


@pytest.fixture
def left() -> list[Any]:
    """What is done before Python ends."""
    return []


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, left: list[Any]) -> Iterator[Fake]:
    made = Fake()
    install(monkeypatch, made.module())
    monkeypatch.setattr(pycuda, "atexit", SimpleNamespace(register=left.append))
    pycuda._primary.cache_clear()
    yield made
    pycuda._primary.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, driver: Any) -> None:
    package = ModuleType("pycuda")
    package.__spec__ = ModuleSpec("pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", driver)


def test_a_launch_is_tied_in_before_and_behind(fake: Fake) -> None:
    """The caller's stream, PyCUDA's own, and back: in the caller's order each time that it is called."""
    kernel = pycuda.function(Path("/a/gemm.cubin"), "sgemm")
    side = pycuda.open_side(CALLER, fake)
    arguments = (("P", 4096), ("f", 1.5), ("q", 3))
    call = pycuda.launch(side, kernel, (4, 1, 1), (32, 8, 1), arguments, shared=1024)
    fake.journal.clear()
    call()
    call()
    fork, join = (hex(event.value) for event in (side.fork, side.join))
    assert fork != join
    assert fake.journal == 2 * [
        f"record {fork} on {CALLER:#x}",
        f"{ITS_OWN:#x} waits for {fork}",
        f"launch (4, 1, 1) (32, 8, 1) on {ITS_OWN:#x} Pfq (4096, 1.5, 3) 1024",
        f"record {join} on {ITS_OWN:#x}",
        f"{CALLER:#x} waits for {join}",
    ]


def test_its_stream_knows_nothing_of_the_default_one_and_events_take_no_time(fake: Fake) -> None:
    pycuda.open_side(CALLER, fake)
    assert fake.journal[-3:] == ["event 2", "event 2", "stream 1"]


@pytest.mark.parametrize(("shared", "asked"), [(48 << 10, []), (64 << 10, ["shared 65536"])])
def test_much_shared_memory_is_asked_for(fake: Fake, shared: int, asked: list[str]) -> None:
    kernel, side = pycuda.function(Path("x.cubin"), "x"), pycuda.open_side(CALLER, fake)
    fake.journal.clear()
    pycuda.launch(side, kernel, (1, 1, 1), (1, 1, 1), (), shared)
    assert fake.journal == asked


def test_the_context_of_the_current_device_is_entered_once_and_left(fake: Fake, left: list[Any]) -> None:
    fake.current = 1
    pycuda.load()
    pycuda.load()
    assert fake.journal == ["init", "retain 1", "push 1", "init"]
    for leave in left:
        leave()
    assert fake.journal[-1] == "detach 1" and len(left) == 1


def test_it_follows_the_current_device(fake: Fake) -> None:
    for fake.current in (0, 1, 0):
        pycuda.load()
    assert [x for x in fake.journal if x != "init"] == ["retain 0", "push 0", "retain 1", "push 1", "push 0"]


def test_without_a_current_context_it_is_the_first_device(fake: Fake) -> None:
    fake.current = None
    pycuda.load()
    assert fake.journal[-1] == "push 0"


def test_what_fails_is_told(fake: Fake) -> None:
    kernel, side = pycuda.function(Path("x.cubin"), "x"), pycuda.open_side(CALLER, fake)
    call = pycuda.launch(side, kernel, (1, 1, 1), (1, 1, 1), ())
    fake.fails = "launch"
    with pytest.raises(LaunchError, match=r"^FakeError: invalid something$"):
        call()
    fake.fails, fake.status = "", 700
    with pytest.raises(LaunchError, match="cuEventRecord answers 700"):
        call()
    with pytest.raises(Unavailable, match="cuEventCreate answers 700: no usable GPU"):
        pycuda.open_side(CALLER, fake)
    fake.fails = "load"
    with pytest.raises(LaunchError, match=r"^f of g\.cubin: FakeError: invalid something$"):
        pycuda.function(Path("/a/g.cubin"), "f")
    fake.fails = "shared"
    with pytest.raises(LaunchError, match=r"^FakeError: invalid something$"):
        pycuda.launch(side, kernel, (1, 1, 1), (1, 1, 1), (), 64 << 10)


def test_one_that_cannot_be_used_is_one_line(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.fails = "init"
    with pytest.raises(Unavailable, match=r"^pycuda is installed but cannot .*FakeError.*: pip install --force"):
        pycuda.load()
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)  # as where libcuda.so.1 is not here
    with pytest.raises(Unavailable, match=r"^pycuda is installed .*\(ModuleNotFoundError: "):
        pycuda.load()
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"^pycuda is not installed: pip install 'kernelgap\[pycuda\]'$"):
        pycuda.load()
