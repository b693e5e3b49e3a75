"""The colors of kinds of work, the same in every picture: arithmetic mostly cool, moving warm, dispatch gray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reports.figures import _style

if TYPE_CHECKING:
    from matplotlib.artist import Artist

COLORS = {
    "gemm": "#0072B2",
    "convolution": "#2A2178",
    "recurrent cell": "#8A7BE0",
    "attention": "#00A6B8",
    "normalization": "#009E5A",
    "pooling": "#A2D45E",
    "embedding": "#6F7F1D",
    "element-wise": "#6CC0F0",
    "reduction": "#A9DCD3",
    "softmax and loss": "#0B5A3A",
    "optimizer": "#E58FC0",
    "copy": "#F0E442",
    "clear": "#FBF3B4",
    "cast": "#BFA400",
    "layout reorder": "#D55E00",
    "packing": "#F0A020",
    "random numbers": "#B0209A",
    "OS memory": "#7A1747",
    "malloc": "#E8837A",
    "OS other": "#B03A48",
    "dispatch": "#777777",
    "interpreter": "#A6A6A6",
    "tracer": "#CDB5E6",
    "data": "#6B4526",
    "communication": "#C8A582",
    "waiting": "#F4EFE8",
    "spin": "#3F3F3F",
}
OTHER = "#D4D4D4"  # several kinds, or one that is not known
BRIGHT = 0.36  # luminance from which on letters are dark


def color(name: str) -> str:
    """Of a kind; gray where it is not known."""
    return COLORS.get(name, OTHER)


def ink(ground: str) -> str:
    """Of letters on this color."""
    red, green, blue = (int(ground[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return _style.INK if 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2 > BRIGHT else "white"


def key(names: list[str]) -> list[tuple[Artist, str]]:
    """For the sheet: kinds by name, and last the gray of the others if one has it."""
    known = [name for name in dict.fromkeys(names) if name in COLORS]
    signs = [(_style.handle(marker="s", markersize=8, color=COLORS[name]), name) for name in known]
    gray = (_style.handle(marker="s", markersize=8, color=OTHER), "several kinds, or unknown")
    return [*signs, gray] if len(known) < len(set(names)) else signs
