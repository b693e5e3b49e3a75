"""Runs made by hand, for the pictures; and what can be read on a picture."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from reports.record import Comparison, Contest, Environment, Result, Run, Seconds

FACTS = {"device": {"model": "Some CPU"}}


def case(m: int, trans: str = "nn", variant: str = "openblas", contest: str = "c", **changes: Any) -> Result:
    """2 GFLOP/s, 40 % of a ceiling of multiply-adds."""
    seconds = 1e-6 * m
    problem = {"m": m, "n": 8, "k": 8, "trans": trans}
    name = f"gemm/m:{m}/n:8/k:8/{'' if trans == 'nn' else 'trans:nt/'}variant:{variant}/threads:1"
    plain = Result(
        name,
        contest,
        "measured",
        "gemm",
        problem,
        variant,
        "cpu",
        1,
        "ok",
        seconds=Seconds(seconds, 0.9 * seconds, 1.1 * seconds, 0.95),
        flops_per_second=2e9,
        bytes_per_second=1e9,
        percent_of_ceiling=40.0,
        ceiling="FMA avx2",
        axes={"trans": "word"},
        samples=tuple(seconds * (1 + i / 100) for i in range(10)),
        rounds=tuple(range(10)),
    )
    return replace(plain, **changes)


def convolution(edge: int, variant: str, seconds: float, **problem: Any) -> Result:
    """A filter of so many rows and columns."""
    sizes = {"n": 2, "c": 4, "h": 9, "w": 9, "k": 8, "r": edge, "s": edge, "stride": 1, "dilation": 1, "groups": 1}
    values = sizes | {"direction": "forward"} | problem
    name = f"conv/r:{edge}/direction:{values['direction']}/variant:{variant}/threads:1"
    timed = Seconds(seconds, 0.9 * seconds, 1.1 * seconds, 0.95)
    return replace(case(1, variant=variant), name=name, op="conv", problem=values, seconds=timed)


FMA = replace(
    case(1), name="fma", role="ceiling", op="fma", problem={"isa": "avx2"}, flops_per_second=5e9, ceiling="FMA avx2"
)


def compared(contender: Result, baseline: Result, value: float | None = 1.5, **changes: Any) -> Comparison:
    ends = (None, None) if value is None else (0.95 * value, 1.05 * value)
    plain = Comparison(
        baseline.contest, "trans", baseline.name, contender.name, value, *ends, 0.95, "slower", None, 0.01, 0.01
    )
    return replace(plain, **changes)


def contest(m: int, variant: str = "openblas", kind: str = "nn-nt", **changes: Any) -> Contest:
    """NT against NN; `changes` are the comparison's."""
    name = f"{kind}/gemm/m:{m}/n:8/k:8/variant:{variant}"
    nn, nt = (case(m, trans, variant, name) for trans in ("nn", "nt"))
    question = f"does {variant} pay for a transposed operand?"
    return Contest(name, question, "trans", (nn, nt, FMA), (compared(nt, nn, **changes),))


def run(*contests: Contest) -> Run:
    return Run(Environment("0", FACTS, {}, "", "2026-11-21T16:00:00"), contests)


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


SWEEP = run(*(contest(m, variant) for variant in ("openblas", "mkl") for m in (1, 8, 64)))
