"""The picture of gradients, and the marks of caches over a size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from reports.figures import _caches, gradients, rate
from reports.record import Contest, Result, Run, Seconds
from tests.reports.made import case, one, readable, run, words


def moved(size: int, variant: str, seconds: float, contest: str, op: str = "transfer") -> Result:
    return replace(
        case(1, variant=variant, contest=contest),
        name=f"transfer/size:{size}/variant:{variant}/threads:1",
        op=op,
        problem={"size": size},
        seconds=Seconds(seconds, 0.9 * seconds, 1.1 * seconds, 0.95),
        flops_per_second=0.0,
        bytes_per_second=2 * size / seconds,
        ceiling=None,
        percent_of_ceiling=None,
    )


def gradient(network: str, size: int, word: str = "gradient") -> Contest:
    name = f"{word}/network:{network}/size:{size}" if network else f"{word}/size:{size}"
    results = tuple(moved(size, variant, size / rate, name) for variant, rate in (("memcpy", 1e10), ("torch", 5e9)))
    return Contest(name, "how long?", "variant", results, ())


def test_a_bar_for_each_way_of_each_network() -> None:
    figure = one(gradients.draw(run(gradient("fcn-r", 56_823_848), gradient("alexnet-r", 340_392))))
    (axes,) = figure.axes
    labels = [x.get_text() for x in axes.get_yticklabels()]
    assert labels == ["fcn-r, memcpy", "fcn-r, torch", "alexnet-r, memcpy", "alexnet-r, torch"]
    bars: Any = axes.patches
    assert [x.get_width() for x in bars] == pytest.approx([1e10, 5e9, 1e10, 5e9])
    assert axes.get_xlim()[0] == 0
    assert {"56.8 MB", "340 kB", "5.68 ms"} <= set(words(figure).splitlines())
    readable(figure)


def test_one_network_and_other_contests_have_no_such_picture() -> None:
    assert gradients.draw(run(gradient("fcn-r", 56_823_848))) == []
    assert gradients.draw(run(gradient("", 4096, "curve"), gradient("", 8192, "curve"))) == []


def curve(op: str = "transfer") -> Run:
    sizes = (1024, 65536, 1 << 20, 1 << 26)
    rows = [moved(size, "memcpy", size / 1e10, f"curve/size:{size}", op) for size in sizes]
    made = run(*(Contest(x.contest, "how long?", "variant", (x,), ()) for x in rows))
    facts = {"device": {"model": "Some CPU", "caches": [49152, 2 << 20, 1 << 30]}}
    return replace(made, environment=replace(made.environment, facts=facts))


def test_caches_are_marked_where_both_operands_fill_them() -> None:
    figure = one(rate.draw(curve()))
    told = words(figure)
    lines = [x for x in figure.axes[0].lines if x.get_linewidth() == _caches.LINE["linewidth"]]
    assert [list(x.get_xdata()) for x in lines] == [[24576] * 2, [1 << 20] * 2]  # the last one lies beyond the axis
    assert "48 KiB" in told and "2 MiB" in told and "a cache is full" in told
    readable(figure)


def test_what_does_more_than_move_bytes_has_no_marks() -> None:
    results = curve().results
    assert list(_caches.sizes(curve(), results, "size")) == [49152, 2 << 20, 1 << 30]
    assert _caches.sizes(curve("gemm"), curve("gemm").results, "size") == {}
    uneven = [replace(x, bytes_per_second=1e10 * (1 + i)) for i, x in enumerate(results)]
    assert _caches.sizes(curve(), uneven, "size") == {}
    assert _caches.sizes(run(), results, "size") == {}
