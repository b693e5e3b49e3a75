"""Kinds of device, one file each: their properties, their availability, and how to open a device."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.errors import UsageError

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.devices.kind import Kind

NO_KINDS = ("base", "kind")  # files of this folder that define no kind


def kinds() -> tuple[str, ...]:
    """Return the names of the kinds of device, the files of this folder."""
    return tuple(sorted(x.stem for x in Path(__file__).parent.glob("[a-z]*.py") if x.stem not in NO_KINDS))


def check_name(name: str) -> None:
    """Raise UsageError if `name` does not begin with a kind of device; open nothing."""
    file = name.partition(":")[0]
    if file not in kinds():
        raise UsageError(f"--device {name}: no device kind {file!r}; choose from {', '.join(kinds())}")


def _file(name: str) -> tuple[Any, str]:
    """Return the module of the device called `name`, and the text after its colon."""
    check_name(name)
    file, _, index = name.partition(":")
    return importlib.import_module(f"{__name__}.{file}"), index


@functools.cache
def kind_of(name: str) -> Kind:
    """Return the kind of the device called `name`, without opening it. Raises UsageError."""
    module, index = _file(name)
    kind: Kind = module.kind(index)
    return kind


def missing(name: str) -> str | None:
    """Return why the device called `name` cannot be opened here, or None if it can; open nothing."""
    module, _ = _file(name)
    reason: str | None = module.missing() if hasattr(module, "missing") else None
    return reason


def open_device(name: str) -> Device:
    """Open the device called "cpu", "fake" …, or "kind:index", and give it that name.

    Raises UsageError, Unavailable."""
    module, index = _file(name)
    device: Device = module.open_device(index)
    device.name = name
    return device


def running(kernels: str) -> Kind | None:
    """Return a kind of device, not simulated, that runs variants written for `kernels`, or None."""
    return next((kind for kind in map(kind_of, kinds()) if kind.kernels == kernels and not kind.scripted), None)
