"""What can be read on a picture, and the run that most pictures here are of."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.build import run, transposed


def one(made: list[tuple[str, Figure]]) -> Figure:
    assert len(made) == 1
    return made[0][1]


def texts(figure: Figure) -> list[tuple[str, Any]]:
    """Every text that can be seen, and where it stands."""
    figure.draw_without_rendering()
    found = [x for x in figure.findobj(Text) if isinstance(x, Text) and x.get_visible() and x.get_text().strip()]
    return [(x.get_text(), x.get_window_extent()) for x in found]


def readable(figure: Figure) -> None:
    """Asserts that no text is cut or touches another."""
    seen = texts(figure)
    for i, (text, box) in enumerate(seen):
        assert box.x0 >= 0 and box.y0 >= 0, text
        assert box.x1 <= figure.bbox.width + 1 and box.y1 <= figure.bbox.height + 1, text
        for other, near in seen[:i]:
            beside = min(box.x1, near.x1) - max(box.x0, near.x0) <= 1
            assert beside or min(box.y1, near.y1) - max(box.y0, near.y0) <= 1, (text, other)


def words(figure: Figure) -> str:
    return "\n".join(text for text, _ in texts(figure))


def marks(axes: Axes, marker: str) -> list[Any]:
    return [line for line in axes.lines if line.get_marker() == marker]


SWEEP = run(*(transposed(m, variant) for variant in ("openblas", "mkl") for m in (1, 8, 64)))
