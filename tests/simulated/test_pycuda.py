"""The binding of PyCUDA on a mock that notes what it is asked; what only a GPU can tell is not told here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda, pycuda

CALLER, ITS_OWN = 0x70, 0x104  # addresses of streams


class FakeError(Exception):
    """What PyCUDA calls Error."""


FAILS = FakeError("invalid something\nmore of it")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`pycuda.driver` and libcuda in one. `current` is the device of CUDA's current context, `left` what ends."""
    made = Mock(Error=FakeError, current=0, left=[])
    made.Stream.return_value = SimpleNamespace(handle=ITS_OWN)
    devices = [Mock() for _ in range(2)]
    for device in devices:
        context = device.retain_primary_context.return_value
        context.push.side_effect = lambda context=context: setattr(made.Context.get_current, "return_value", context)
    made.Context.get_device.side_effect = lambda: devices[made.current]
    made.Device.side_effect = devices.__getitem__
    made.devices = devices
    made.cuEventCreate.side_effect = lambda event, flags: setattr(event._obj, "value", made.cuEventCreate.call_count)
    for function in (made.cuEventRecord, made.cuStreamWaitEvent):
        function.return_value = 0
    package = ModuleType("pycuda")
    package.__spec__ = ModuleSpec("pycuda", None)
    monkeypatch.setitem(sys.modules, "pycuda", package)
    monkeypatch.setitem(sys.modules, "pycuda.driver", made)
    monkeypatch.setattr(pycuda, "atexit", SimpleNamespace(register=made.left.append))
    pycuda._primary.cache_clear()
    yield made
    pycuda._primary.cache_clear()


def asked(driver: Any) -> list[tuple[Any, ...]]:
    """Return the calls so far, by their last name, with plain numbers."""
    return [
        (name.rpartition(".")[2], *(getattr(x, "value", x) for x in given), *named.values())
        for name, given, named in driver.mock_calls
    ]


def test_a_launch_is_tied_in_before_and_behind(driver: Any) -> None:
    """The caller's stream, PyCUDA's own, and back: in the caller's order each time that it is called."""
    kernel = pycuda.function(Path("/a/gemm.cubin"), "sgemm")
    side = pycuda.open_side(CALLER, driver)
    assert [x.args[1].value for x in driver.cuEventCreate.mock_calls] == [2, 2]  # they take no time
    driver.Stream.assert_called_once_with(1)  # which knows nothing of the default one
    arguments = (("P", 4096), ("f", 1.5), ("q", 3))
    call = pycuda.launch(side, kernel, (4, 1, 1), (32, 8, 1), arguments, shared=1024)
    kernel.prepare.assert_called_once_with(["P", "f", "q"])
    kernel.set_attribute.assert_not_called()
    driver.reset_mock()
    call()
    call()
    fork, join = side.fork.value, side.join.value
    assert fork != join
    assert asked(driver) == 2 * [
        ("cuEventRecord", fork, CALLER),
        ("cuStreamWaitEvent", ITS_OWN, fork, 0),
        ("prepared_async_call", (4, 1, 1), (32, 8, 1), side.stream, 4096, 1.5, 3, 1024),
        ("cuEventRecord", join, ITS_OWN),
        ("cuStreamWaitEvent", CALLER, join, 0),
    ]


@pytest.mark.parametrize(("shared", "times"), [(48 << 10, 0), (64 << 10, 1)])
def test_much_shared_memory_is_asked_for(driver: Any, shared: int, times: int) -> None:
    kernel, side = pycuda.function(Path("x.cubin"), "x"), pycuda.open_side(CALLER, driver)
    pycuda.launch(side, kernel, (1, 1, 1), (1, 1, 1), (), shared)
    assert [x.args[1] for x in kernel.set_attribute.mock_calls] == times * [shared]


def test_the_context_of_the_current_device_is_entered_once_and_left(driver: Any) -> None:
    contexts = [device.retain_primary_context.return_value for device in driver.devices]
    for driver.current in (1, 1, 0, 1):
        pycuda.load()
    assert [device.retain_primary_context.call_count for device in driver.devices] == [1, 1]
    assert [context.push.call_count for context in contexts] == [1, 2]
    assert driver.left == [contexts[1].detach, contexts[0].detach]


def test_without_a_current_context_it_is_the_first_device(driver: Any) -> None:
    driver.Context.get_device.side_effect = FAILS
    pycuda.load()
    driver.devices[0].retain_primary_context.return_value.push.assert_called_once_with()


def test_what_fails_is_told(driver: Any) -> None:
    kernel, side = pycuda.function(Path("x.cubin"), "x"), pycuda.open_side(CALLER, driver)
    call = pycuda.launch(side, kernel, (1, 1, 1), (1, 1, 1), ())
    kernel.prepared_async_call.side_effect = FAILS
    with pytest.raises(LaunchError, match=r"^FakeError: invalid something$"):
        call()
    driver.cuEventRecord.return_value = 700
    with pytest.raises(LaunchError, match="cuEventRecord returned 700"):
        call()
    driver.cuEventCreate.side_effect = lambda event, flags: 700
    with pytest.raises(Unavailable, match="cuEventCreate returned 700: no usable GPU"):
        pycuda.open_side(CALLER, driver)
    kernel.set_attribute.side_effect = FAILS
    with pytest.raises(LaunchError, match=r"^FakeError: invalid something$"):
        pycuda.launch(side, kernel, (1, 1, 1), (1, 1, 1), (), 64 << 10)
    driver.module_from_file.side_effect = FAILS
    with pytest.raises(LaunchError, match=r"^f of g\.cubin: FakeError: invalid something$"):
        pycuda.function(Path("/a/g.cubin"), "f")


def test_one_that_cannot_be_used_is_one_line(driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.init.side_effect = FAILS
    with pytest.raises(Unavailable, match=r"^pycuda is installed but cannot .*FakeError.*: pip install --force"):
        pycuda.load()
    monkeypatch.setitem(sys.modules, "pycuda.driver", None)  # as where libcuda.so.1 is not here
    with pytest.raises(Unavailable, match=r"^pycuda is installed .*\(ModuleNotFoundError: "):
        pycuda.load()
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"^pycuda is not installed: pip install 'kernelgap\[pycuda\]'$"):
        pycuda.load()
