"""One file is one kind of device."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.errors import UsageError

if TYPE_CHECKING:
    from kernels.devices.base import Device


def kinds() -> tuple[str, ...]:
    """The kinds of device there are: the files of this folder."""
    return tuple(sorted(x.stem for x in Path(__file__).parent.glob("[a-z]*.py") if x.stem != "base"))


KERNELS = ("cpu", "cuda")  # what a variant is written for


def check_name(name: str) -> None:
    """Refuse a name that no kind of device answers to; opens nothing."""
    kind = name.partition(":")[0]
    if kind not in kinds():
        raise UsageError(f"--device {name}: no device kind {kind!r}; there are: {', '.join(kinds())}")


def runs(name: str) -> str:
    """Which kernels the device called `name` runs. One that only plays, as the fake does, is told behind its
    colon whose: `fake:cuda`."""
    kind, _, index = name.partition(":")
    return kind if kind in KERNELS else index or "cpu"


def missing(name: str) -> str | None:
    """Why the device called `name` cannot be opened here, told without opening it."""
    check_name(name)
    module: Any = importlib.import_module(f"kernels.devices.{name.partition(':')[0]}")
    reason: str | None = module.missing() if hasattr(module, "missing") else None
    return reason


def open_device(name: str) -> Device:
    """The device called "cpu", "fake" …, or "kind:index". Raises UsageError, Unavailable."""
    check_name(name)
    kind, _, index = name.partition(":")
    device: Device = importlib.import_module(f"kernels.devices.{kind}").open_device(index)
    return device
