"""A figure of the self-test: what was measured, what is promised of it, and whether that holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One line: what was found, what is promised, and whether it holds; `busy` says why it need not."""

    name: str
    found: str
    promised: str
    held: bool
    busy: str | None = None

    def say(self) -> str:
        verdict = "held" if self.held else f"not judged: {self.busy}" if self.busy else "NOT HELD"
        return f"{self.name}: {self.found}" + (f"; promised {self.promised}: {verdict}" if self.promised else "")


def exit_code(figures: Sequence[Figure]) -> int:
    """0 where every figure is as promised, or the machine was too busy for it; else 1."""
    return 0 if all(figure.held or figure.busy for figure in figures) else 1


def data(figures: Sequence[Figure]) -> list[dict[str, Any]]:
    """The figures as a run file has them."""
    return [asdict(figure) for figure in figures]


def document(started: str, figures: Sequence[Figure]) -> dict[str, Any]:
    """The figures as JSON has them."""
    return {"started": started, "figures": data(figures)}


def write(kept: dict[str, Any], path: str | None) -> None:
    """A document to the file of `--json`, or to stdout where that is `-`."""
    if path == "-":
        print(json.dumps(kept))
    elif path:
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(kept, stream)
