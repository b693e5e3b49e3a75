"""Rows of the operations' tables, checked on this CPU as a worker checks them, or harmed before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kernels.catalog import find, rows
from kernels.devices import open_device
from kernels.launch import Launch
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check

CPU = open_device("cpu")


def kernels(op: str) -> list[Variant[Any]]:
    """Return the rows of a processor, without those whose plans take seconds to minutes a shape."""
    return [row for row in rows(op, "cpu") if "patient" not in row.name]


def checked(problem: Any, row: Variant[Any] | str = "c", seed: int = 3, setting: Setting | None = None) -> check.Passed:
    """Check a row, or the row of a name. Raises WrongResult, and what its `prepare` raises."""
    variant = find(problem.op, row) if isinstance(row, str) else row
    setting = setting or Setting()
    bind = variant.prepare(problem, CPU, setting)
    passed, _ = check.check(CPU, problem, variant, bind, seed, check.Asked(data=setting.data))
    assert passed.error <= passed.bound
    return passed


def harmed(sound: Variant[Any], harm: Callable[..., object]) -> Variant[Any]:
    """Return the row with `harm(before, *operands)` done after each call; `before`: copies of the operands."""

    def prepare(problem: Any, device: Any, setting: Any) -> Any:
        bound = sound.prepare(problem, device, setting)

        def bind(buffers: Sequence[Any]) -> Launch:
            inner = bound(buffers)

            def call() -> None:
                before = [x.copy() for x in buffers]
                inner.call()
                harm(before, *buffers)

            return replace(inner, call=call, entry=None)

        return bind

    return replace(sound, prepare=prepare)
