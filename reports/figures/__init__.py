"""Pictures of a run: each file's `draw(run)` returns (suffix, figure) pairs, none without data.

The folder is the registry; modules whose names begin with an underscore are helpers."""

from __future__ import annotations

import importlib
from pathlib import Path

from reports.record import Run

DPI = 110  # a figure of 9.2 inches is then 1012 pixels wide


def kinds() -> tuple[str, ...]:
    """Return the kinds of pictures, which are the names of the modules."""
    return tuple(sorted(x.stem for x in Path(__file__).parent.glob("*.py") if not x.stem.startswith("_")))


def draw(run: Run, folder: Path, stem: str = "") -> list[Path]:
    """Write every picture that has data in the run as PNG into the folder; return the paths."""
    from matplotlib import style

    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    with style.context("default"):  # not the reader's own matplotlibrc
        for kind in kinds():
            for suffix, figure in importlib.import_module(f"{__name__}.{kind}").draw(run):
                path = folder / ("-".join(filter(None, (stem, kind, suffix))) + ".png")
                figure.savefig(path, dpi=DPI)
                paths.append(path)
    return paths
