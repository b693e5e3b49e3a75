"""What a layer is called on the pictures of its passes."""

from __future__ import annotations

from typing import Any

from reports.record import Result

FORMS = ("stride", "dilation", "groups")


def layer(result: Result) -> str:
    """`3×3, 256→384, 13×13, batch 16, stride 2`: a convolution without its direction."""
    x: Any = result.problem
    forms = [f"{name} {x[name]}" for name in FORMS if x[name] > 1]
    plain = x["layout"] == "nchw"
    words = [f"{x['r']}×{x['s']}", f"{x['c']}→{x['k']}", f"{x['h']}×{x['w']}", f"batch {x['n']}", *forms]
    return ", ".join(words if plain else [*words, x["layout"]])
