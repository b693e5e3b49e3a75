"""One file is one kind of device: what it is, whether one is here, and how to open it."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.errors import UsageError

if TYPE_CHECKING:
    from kernels.devices.base import Device
    from kernels.devices.kind import Kind

NO_KINDS = ("base", "kind")  # files of this folder that are none


def kinds() -> tuple[str, ...]:
    """The kinds of device there are: the files of this folder."""
    return tuple(sorted(x.stem for x in Path(__file__).parent.glob("[a-z]*.py") if x.stem not in NO_KINDS))


def check_name(name: str) -> None:
    """Refuse a name that no kind of device answers to; opens nothing."""
    file = name.partition(":")[0]
    if file not in kinds():
        raise UsageError(f"--device {name}: no device kind {file!r}; there are: {', '.join(kinds())}")


def _file(name: str) -> tuple[Any, str]:
    """The module of the device called `name`, and what stands behind its colon."""
    check_name(name)
    file, _, index = name.partition(":")
    return importlib.import_module(f"{__name__}.{file}"), index


@functools.cache
def kind_of(name: str) -> Kind:
    """What the device called `name` is; opens nothing. Raises UsageError."""
    module, index = _file(name)
    kind: Kind = module.kind(index)
    return kind


def missing(name: str) -> str | None:
    """Why the device called `name` cannot be opened here, told without opening it."""
    module, _ = _file(name)
    reason: str | None = module.missing() if hasattr(module, "missing") else None
    return reason


def open_device(name: str) -> Device:
    """The device called "cpu", "fake" …, or "kind:index"; it goes by the name that it was asked for by, as cases do.
    Raises UsageError, Unavailable."""
    module, index = _file(name)
    device: Device = module.open_device(index)
    device.name = name
    return device


def running(kernels: str) -> Kind | None:
    """A kind of device that runs the rows written for `kernels`; None where there is none."""
    return next((kind for kind in map(kind_of, kinds()) if kind.kernels == kernels and not kind.scripted), None)
