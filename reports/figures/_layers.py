"""What a layer is called on the pictures of its passes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reports.record import Result

FORMS = ("stride", "dilation", "groups")


def place(problem: Mapping[str, Any]) -> str:
    """`5×5, 96→256, 27×27, stride 4`: a convolution without its batch and direction."""
    text = "{r}×{s}, {c}→{k}, {h}×{w}".format_map(problem)
    return text + "".join(f", {name} {problem[name]}" for name in FORMS if problem[name] > 1)


def layer(result: Result) -> str:
    """`3×3, 256→384, 13×13, stride 2, batch 16`: without its direction."""
    x: Any = result.problem
    words = [place(x), f"batch {x['n']}"]
    return ", ".join(words if x["layout"] == "nchw" else [*words, x["layout"]])
