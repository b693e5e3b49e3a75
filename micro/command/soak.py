"""`python -m micro.selftest --soak`: promises that take minutes each to measure, on a quiet machine, part by part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import TypeAlias

from kernels.errors import UsageError
from micro.command import (
    figure,
    soak_causes,
    soak_conv,
    soak_elementwise,
    soak_explain,
    soak_frameworks,
    soak_graphs,
    soak_knock,
    soak_own,
    soak_plain,
    soak_predictions,
    soak_rate,
    soak_sweeps,
)
from micro.command.outputs import for_people, open_outputs
from micro.planning.options import Outputs

Part: TypeAlias = Callable[[], Iterator[figure.Figure]]
OWN: dict[str, Part] = {
    "injected": soak_own.injected,
    "equal": soak_own.equal,
    "knock": soak_knock.figures,
    "plain": soak_plain.figures,
}
PARTS: dict[str, Part] = {
    "rate": soak_rate.figures,
    "elementwise": soak_elementwise.figures,
    "sweeps": soak_sweeps.figures,
    "frameworks": soak_frameworks.figures,
    "explain": soak_explain.figures,
    "graphs": soak_graphs.figures,
    "predictions": soak_predictions.figures,
    "causes": soak_causes.figures,
    "own": lambda: chain(*(make() for make in OWN.values())),
    "conv": soak_conv.figures,
}
PIECES: dict[str, Part] = {
    **{f"causes:{kind}": partial(soak_causes.figures, kind) for kind in soak_causes.KINDS},
    **{f"own:{kind}": figures for kind, figures in OWN.items()},
    **{f"conv:{kind}": partial(soak_conv.figures, kind) for kind in soak_conv.KINDS},
}


def run(parts: str = "", json_file: str | None = None) -> int:
    """Print each figure as soon as it is known; the exit code. `parts`: which, comma-separated (all where it is
    empty), or pieces of one. Raises UsageError."""
    names, known = parts.split(",") if parts else [*PARTS], {**PARTS, **PIECES}
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--soak {unknown[0]}: there are {', '.join(known)}")
    outputs, started = Outputs(documents={"json": json_file} if json_file else {}), datetime.now(UTC).isoformat()
    figures: list[figure.Figure] = []
    with ExitStack() as stack:
        opened = open_outputs(outputs, stack)
        for name in names:
            for one in known[name]():
                print(one.say(), file=for_people(outputs), flush=True)
                figures.append(one)
        figure.write(figure.document(started, figures), opened.get("json"))
    return figure.exit_code(figures)
