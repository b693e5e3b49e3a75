"""Pictures of a run: `draw(run)` of each file returns (suffix, figure) for each with data in the run.

The folder is the registry; files whose names begin with an underscore are shared by pictures."""

from __future__ import annotations

import importlib
from pathlib import Path

from reports.record import Run

DPI = 110  # a figure of 9.2 inches is then 1012 pixels wide


def kinds() -> tuple[str, ...]:
    """Return the names of the pictures, which are those of the files."""
    return tuple(sorted(x.stem for x in Path(__file__).parent.glob("*.py") if not x.stem.startswith("_")))


def draw(run: Run, folder: Path, stem: str = "") -> list[Path]:
    """Draw every picture that has data in this run, as PNG, into the folder (made if missing)."""
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
