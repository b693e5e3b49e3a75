"""One file is one kind of device."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.errors import UsageError

if TYPE_CHECKING:
    from kernels.devices.base import Device


def kinds() -> tuple[str, ...]:
    """The kinds of device there are: the files of this folder."""
    return tuple(sorted(x.stem for x in Path(__file__).parent.glob("[a-z]*.py") if x.stem != "base"))


def check_name(name: str) -> None:
    """Refuse a name that no kind of device answers to; opens nothing."""
    kind = name.partition(":")[0]
    if kind not in kinds():
        raise UsageError(f"--device {name}: no device kind {kind!r}; there are: {', '.join(kinds())}")


def open_device(name: str) -> Device:
    """The device called "cpu", "fake" …, or "kind:index". Raises UsageError, Unavailable."""
    check_name(name)
    kind, _, index = name.partition(":")
    device: Device = importlib.import_module(f"kernels.devices.{kind}").open_device(index)
    return device
