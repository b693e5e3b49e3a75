"""Operations of a step by name: the modules that call them, the axes of their inputs, and what was not fused."""

from __future__ import annotations

from collections.abc import Sequence

from macro.explaining import modules
from macro.explaining.operation_call import Call
from macro.explaining.operation_work import thin
from macro.explaining.rows import OUTSIDE
from macro.watching.recording import Called
from reports.explanation import CalledIn

THIN = "thin product"  # name of products of few columns whose left operand is one matrix for each of a batch


def by_name(called: Sequence[Called]) -> dict[str, CalledIn]:
    """Return the places of each operation of a step; a product of many thin matrices also counts as THIN."""
    paths, axes, calls = dict[str, dict[str, None]](), dict[str, int](), dict[str, int]()
    by_event = {id(x.event): x for x in called}
    for event, where, _ in modules.placed([x.event for x in called]):
        recorded = by_event[id(event)]
        call = Call(event.name, recorded.shapes, recorded.types, recorded.arguments, recorded.strides)
        for name in (event.name.removeprefix("aten::"), *([THIN] if thin(call) > 1 else [])):
            paths.setdefault(name, {})[where.path if where else OUTSIDE] = None
            axes[name] = max([axes.get(name, 0), *map(len, recorded.shapes)])
            calls[name] = calls.get(name, 0) + 1
    kept = {name: tuple(of) for name, of in paths.items() if "::" not in name and not name.startswith("kg/")}
    return {name: CalledIn(of, axes[name], calls[name]) for name, of in kept.items()}
