"""`python -m micro.selftest --soak`: promises that take minutes each to measure, on a quiet machine, part by part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from kernels.errors import UsageError
from micro.command import figure, soak_elementwise, soak_explain, soak_frameworks, soak_rate, soak_sweeps

PARTS: dict[str, Callable[[], Iterator[figure.Figure]]] = {
    "rate": soak_rate.figures,
    "elementwise": soak_elementwise.figures,
    "sweeps": soak_sweeps.figures,
    "frameworks": soak_frameworks.figures,
    "explain": soak_explain.figures,
}


def run(parts: str = "", json_file: str | None = None) -> int:
    """Print each figure as soon as it is known; the exit code. `parts`: which, comma-separated (all where it is
    empty). Raises UsageError."""
    names = parts.split(",") if parts else [*PARTS]
    if unknown := [name for name in names if name not in PARTS]:
        raise UsageError(f"--soak {unknown[0]}: there are {', '.join(PARTS)}")
    started, out = datetime.now(UTC).isoformat(), sys.stderr if json_file == "-" else sys.stdout
    figures = []
    for name in names:
        for one in PARTS[name]():
            print(one.say(), file=out, flush=True)
            figures.append(one)
    figure.write(figure.document(started, figures), json_file)
    return figure.exit_code(figures)
