"""Pictures of rates, ratios and samples: ceilings, the margin, intervals, and what is left out and told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from matplotlib.colors import to_hex

from reports.figures import _style, rate, ratio, samples
from reports.record import Contest, Result, Run
from tests.build import FMA, case, compared, contest, convolution, environment, run, spread, transposed
from tests.reports.pictures import SWEEP, marks, one, readable, texts, words


def test_rates_over_a_size() -> None:
    figure = one(rate.draw(SWEEP))
    (axes,) = figure.axes
    assert axes.get_ylabel() == "GFLOP/s"
    assert "FMA avx2: 5.00 GFLOP/s" in words(figure)
    assert [x.get_text() for x in figure.texts if x.get_weight() == "bold"] == [
        "How near to the ceiling does each case come?"
    ]
    assert [x for x in axes.lines if list(x.get_ydata()) == [5e9, 5e9]]
    low, high = axes.get_ylim()
    assert low <= 2e9 and high > 5e9
    assert {"openblas, nn", "openblas, nt", "mkl, nn"} <= {x.strip() for x in words(figure).splitlines()}


def test_where_reading_takes_longer_its_ceiling_is_drawn() -> None:
    def small(made: Contest) -> Contest:
        changed = tuple(
            replace(x, ceiling="read 4 KiB", percent_of_ceiling=80.0) if x.role == "measured" else x
            for x in made.results
        )
        return replace(made, results=changed)

    figure = one(rate.draw(run(small(transposed(1)), small(transposed(8)), transposed(64))))
    dotted = [x for x in figure.axes[0].lines if x.get_linewidth() == 2.5]
    assert [list(x.get_xdata()) for x in dotted] == [[1, 8]]
    assert list(dotted[0].get_ydata()) == pytest.approx([2.5e9, 2.5e9])


def test_a_row_for_each_case() -> None:
    doubted = transposed(8)
    results = (doubted.results[0], replace(doubted.results[1], status="contended"), FMA)
    figure = one(rate.draw(run(replace(doubted, results=results))))
    (axes,) = figure.axes
    assert [x.get_text() for x in axes.get_yticklabels()] == ["nn", "nt"]
    assert all(x in words(figure) for x in ("2.00 GFLOP/s", "40 % of FMA avx2, contended"))
    assert [list(x.get_xdata()) for x in marks(axes, "|")] == [[5e9], [5e9]]
    assert axes.get_xlim()[0] == 0


def test_small_rates_beside_large_ones_are_on_a_logarithmic_axis() -> None:
    made = transposed(8)
    tiny = replace(made.results[1], flops_per_second=2e7, bytes_per_second=1e7)
    figure = one(rate.draw(run(replace(made, results=(made.results[0], tiny, FMA)))))
    assert figure.axes[0].get_xscale() == "log"
    assert figure.axes[0].get_xlim()[0] < 2e7 / 1.1


def test_traffic_is_counted_in_bytes() -> None:
    read = case(8, flops_per_second=0.0, bytes_per_second=3e10, percent_of_ceiling=None, ceiling=None)
    figure = one(rate.draw(run(contest(read, question="how fast?", differs="kind"))))
    told = words(figure)
    assert "30.0 GB/s" in told and "FLOP" not in told and "ceiling" not in told


def test_peaks_of_tensor_cores() -> None:
    problem = {"dtype": "bf16", "unit": "wgmma", "steps": 4096, "processors": 132}
    cores = replace(FMA, op="mma", problem=problem, flops_per_second=8e9, ceiling="tensor cores bf16, wgmma")
    told = words(one(rate.draw(run(contest(case(1), case(2), cores, differs="m")))))
    assert "tensor cores bf16, wgmma: 8.00 GFLOP/s" in told and "FMA" not in told.partition("tensor")[0]


def test_a_line_of_several_threads_stands_where_their_ticks_do() -> None:
    """Which is no twice of one that was measured. A share of few noisy rounds, 100 * 2 / 25 here, moves neither."""

    def drawn(*results: Result) -> Any:
        return one(rate.draw(run(contest(*results, differs="threads"))))

    first, two = (case(8, threads=t, name=f"t{t}", percent_of_ceiling=40.0 / t) for t in (1, 2))
    alone = replace(FMA, ceiling="FMA avx2")
    told = words(drawn(first, two, FMA))
    assert "FMA avx2: 5.00 GFLOP/s" in told and "FMA avx2, 2 × 1 thread: 10.0 GFLOP/s" in told
    assert "1, 2 threads" in told
    two = replace(two, percent_of_ceiling=25.0, ceiling="FMA avx2, 2 threads")
    team = replace(FMA, name="fma2", threads=2, ceiling="FMA avx2, 2 threads", flops_per_second=8.2e9)
    figure = drawn(first, two, alone, team)
    (axes,) = figure.axes
    assert "FMA avx2: 5.00 GFLOP/s" in words(figure) and "FMA avx2, 2 threads: 8.20 GFLOP/s" in words(figure)
    assert "×" not in words(figure)
    verticals = {x.get_xdata()[0] for x in axes.lines if list(x.get_xdata()) == [x.get_xdata()[0]] * 2}
    ticks = {x.get_xdata()[0] for x in marks(axes, "|")}
    assert ticks == verticals == {5e9, 8.2e9}
    reads = replace(two, ceiling="read 4 KiB, 2 threads")  # no case is a share of it
    assert "FMA avx2, 2 threads: 8.20 GFLOP/s" in words(drawn(reads, team))
    four = case(8, threads=4, name="t4", percent_of_ceiling=None, ceiling=None)
    assert "FMA avx2, 4 × 1 thread: 20.0 GFLOP/s" in words(drawn(four, alone))


def test_of_many_cases_those_near_their_ceiling_are_left_out() -> None:
    cases = tuple(case(8, variant=f"v{i}", percent_of_ceiling=1.0 + i) for i in range(45))
    figure = one(rate.draw(run(contest(*cases))))
    assert len(figure.axes[0].get_yticklabels()) == 40
    assert "5 more are left out: 41 % to 45 %" in words(figure)
    other = tuple(case(9, variant="v", percent_of_ceiling=1.0, name=f"gemm/m:9/{i}") for i in range(40))
    figure = one(rate.draw(run(contest(*cases[1:], *other))))
    assert {x.get_text() for x in figure.axes[0].get_yticklabels()} == {"v, M = 9"}
    bare = tuple(replace(x, percent_of_ceiling=None) for x in cases)
    assert "5 more are left out." in words(one(rate.draw(run(contest(*bare)))))


def test_over_threads_the_ceiling_is_a_line_of_its_own() -> None:
    cases = tuple(case(8, threads=t, name=f"t{t}", percent_of_ceiling=40.0 / t) for t in (1, 2, 4))
    (axes,) = one(rate.draw(run(contest(*cases, FMA, differs="threads")))).axes
    (dotted,) = [x for x in axes.lines if x.get_linewidth() == 2.5]
    assert list(dotted.get_xdata()) == [1, 2, 4]
    assert list(dotted.get_ydata()) == pytest.approx([5e9, 1e10, 2e10])
    assert not [x for x in axes.lines if list(x.get_ydata()) == [5e9, 5e9]]


def test_convolutions_are_drawn_by_what_they_execute() -> None:
    plain = convolution(3, "winograd", 2e-3)
    fast = replace(plain, work={"flops": 4e6, "bytes": 1e6}, flops_per_second=8e9, percent_of_ceiling=40.0)
    figure = one(rate.draw(run(contest(fast, FMA, question="which?"))))
    (axes,) = figure.axes
    assert axes.get_xlabel() == "GFLOP/s, executed"
    assert "2.00 GFLOP/s" in words(figure) and "40 % of FMA avx2" in words(figure)


def curve(op: str = "transfer", factors: tuple[float, ...] = (1, 1, 1, 1)) -> Run:
    """Copies of four sizes at 10 GB/s each way, times a factor, on a machine with three caches."""
    bare = {"op": op, "variant": "memcpy", "flops_per_second": 0.0, "ceiling": None, "percent_of_ceiling": None}
    rows = []
    for size, factor in zip((1024, 65536, 1 << 20, 1 << 26), factors, strict=True):
        own = {"problem": {"size": size}, "seconds": spread(size / 1e10), "bytes_per_second": factor * 2e10}
        name = {"name": f"{op}/size:{size}/variant:memcpy/threads:1", "contest": f"curve/size:{size}"}
        rows.append(contest(case(1, **bare | own | name)))
    facts = {"device": {"model": "Some CPU", "caches": [49152, 2 << 20, 1 << 30]}}
    return run(*rows, environment=environment(facts=facts))


def test_caches_are_marked_where_both_operands_fill_them() -> None:
    figure = one(rate.draw(curve()))
    text = words(figure)
    lines = [x for x in figure.axes[0].lines if x.get_linewidth() == rate.FULL["linewidth"]]
    assert [list(x.get_xdata()) for x in lines] == [[24576] * 2, [1 << 20] * 2]  # the last cache is off the axis
    assert "48 KiB" in text and "2 MiB" in text and "a cache is full" in text
    readable(figure)


def test_only_plain_moves_mark_caches() -> None:
    def marked(shown: Run) -> list[int]:
        return list(rate.cache_sizes(shown, shown.results, "size"))

    assert marked(curve()) == [49152, 2 << 20, 1 << 30]
    assert marked(curve("gemm")) == marked(curve(factors=(1, 2, 3, 4))) == []
    assert rate.cache_sizes(run(), curve().results, "size") == {}
    for op, is_drawn in (("chase", False), ("stream", True)):  # loads have no rate
        loads = case(1, op=op, problem={"working_set": 4096}, flops_per_second=None, bytes_per_second=6e9)
        assert bool(rate.draw(run(contest(loads, differs="page")))) == is_drawn


def test_rejected_samples_are_marked() -> None:
    """One far above does not squeeze the others."""
    far = tuple(8e-3 if i == 5 else 8e-6 * (1 + i / 100) for i in range(10))
    for seconds in (case(8).samples, far):
        figure = one(samples.draw(run(contest(replace(case(8), samples=seconds, rejected=(2, 5)), differs="trans"))))
        by_label = {x.get_label(): x for x in figure.axes[0].lines}
        assert list(by_label["rejected"].get_xdata()) == [2, 5]
        assert by_label["rejected"].get_marker() == "x"
        assert list(by_label["accepted"].get_xdata()) == [0, 1, 3, 4, 6, 7, 8, 9]
        assert list(by_label["median"].get_ydata()) == [8e-6, 8e-6]
        assert "rejected" in words(figure) and "rejected" not in words(one(samples.draw(run(transposed(8)))))
    top = figure.axes[0].get_ylim()[1]
    assert top < 2 * 8e-6 and by_label["rejected"].get_ydata()[1] == top


def test_cases_of_a_contest_share_the_axis_of_time() -> None:
    made = transposed(8)
    slower = replace(made.results[1], samples=(9e-6,) * 10)
    figure = one(samples.draw(run(replace(made, results=(made.results[0], slower)))))
    assert [x.get_title(loc="left") for x in figure.axes] == ["nn: 8.00 µs", "nt: 8.00 µs"]
    assert len({x.get_ylim() for x in figure.axes}) == 1
    assert figure.axes[0].get_ylabel() == "µs"


@pytest.mark.parametrize("values", [(1e-3,), (1e-3,) * 8, (1e-9, 1.0)])
@pytest.mark.parametrize("rejected", [(), (0,)])
def test_few_and_equal_samples(values: tuple[float, ...], rejected: tuple[int, ...]) -> None:
    few = replace(case(8), samples=values, rounds=(), rejected=rejected)
    figure = one(samples.draw(run(contest(few, differs="trans"))))
    assert sum(len(x.get_xdata()) for x in figure.axes[0].lines if x.get_label() != "median") == len(values)
    assert texts(figure)


def test_the_contests_known_least_are_shown_and_the_others_counted() -> None:
    made = [transposed(m, low=1.5 - m / 100, high=1.5 + m / 100) for m in (1, 2, 3, 4, 5, 6, 7)]
    unknown = transposed(9, kind="other", low=None, high=None)
    told = words(one(samples.draw(run(*made, unknown))))
    assert "6 of 8 contests" in told and "2 are left out: 2 nn-nt" in told
    assert [f"m:{m}/" in told for m in (9, 3, 1, 2)] == [True, True, False, False]
    figure = one(samples.draw(run(contest(*(case(8, variant=f"v{i}") for i in range(11))))))
    assert len(figure.axes) == 8 and "3 are left out" in words(figure)


def test_ratios_over_a_size() -> None:
    figure = one(ratio.draw(SWEEP))
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [x.get_text() for x in axes.get_xticklabels()] == ["1", "8", "64"]
    low, high = axes.get_ylim()
    assert low < 1 - 0.01 and high > 1.5 * 1.05
    assert [x for x in axes.lines if list(x.get_ydata()) == [1.0, 1.0]]
    (band,) = axes.patches
    assert [band.get_extents().transformed(axes.transData.inverted()).y0] == pytest.approx([0.99])
    told = words(figure)
    assert "Is each variant slower with a transposed operand?" in told
    assert "Some CPU, 1 thread, 2026-11-21" in told and "gemm, N = 8, K = 8" in told
    assert "time of A·Bᵀ (nt)\nover time of A·B (nn)" in told
    assert {"openblas", "mkl"} <= {x.strip() for x in told.splitlines()}


def test_values_of_another_size_get_their_own_panel() -> None:
    def wide(made: Contest) -> Contest:
        results = tuple(replace(x, problem=x.problem | {"k": 99}) for x in made.results)
        return replace(made, contest=made.contest + "/k:99", results=results)

    for sizes in ((1,), (1, 8)):
        more = tuple(wide(transposed(m, variant)) for m in sizes for variant in ("openblas", "mkl"))
        figure = one(ratio.draw(replace(SWEEP, contests=SWEEP.contests + more)))
        assert [x.get_title(loc="left") for x in figure.axes] == ["K = 8", "K = 99"]
        assert len({x.get_ylim() for x in figure.axes}) == 1
        assert [x.yaxis.get_tick_params()["labelleft"] for x in figure.axes] == [True, False]
        assert [x.get_text() for x in figure.axes[1].get_xticklabels()] == [str(m) for m in sizes]
        assert len({x.get_xdata()[0] for mark in "oD" for x in marks(figure.axes[1], mark)}) == 2 * len(sizes)


def test_ratios_that_make_no_line_have_rows() -> None:
    shown = run(transposed(8), transposed(8, "mkl", value=0.5, verdict="faster"))
    figure = one(ratio.draw(shown))
    (axes,) = figure.axes
    assert [x.get_text() for x in axes.get_yticklabels()] == ["openblas", "mkl"]
    top, bottom = (x.get_window_extent().y0 for x in axes.get_yticklabels())
    assert top > bottom
    low, high = axes.get_xlim()
    assert low < 0.475 < 0.5 and high > 1.57
    told = words(figure)
    assert "1.50 [1.42, 1.58]" in told and "0.50 [0.47, 0.53]" in told and "faster" in told


def test_unresolved_is_hollow() -> None:
    known, not_known = transposed(8), transposed(8, "mkl", verdict="unresolved")
    figure = one(ratio.draw(run(known, not_known)))
    faces = {to_hex(x.get_color()): x.get_markerfacecolor() for x in figure.axes[0].lines if x.get_marker() in "oD"}
    looks = _style.looks(run(known, not_known))
    assert faces[looks["mkl"].color.lower()] == "white"
    assert to_hex(faces[looks["openblas"].color.lower()]) == looks["openblas"].color.lower()
    assert "unresolved" in words(figure) and "unresolved" not in words(one(ratio.draw(run(known))))


@pytest.mark.parametrize("low", [None, 1.4])
@pytest.mark.parametrize("high", [None, 1.6])
def test_an_interval_without_end_has_an_arrow(low: float | None, high: float | None) -> None:
    for shown, arrows in (
        (run(transposed(8, low=low, high=high)), "<>"),
        (run(*(transposed(m, low=low, high=high) for m in (1, 8, 64))), "v^"),
    ):
        figure = one(ratio.draw(shown))
        (axes,) = figure.axes
        upright = arrows == "v^"
        lines = [x.get_segments()[0][:, int(upright)] for x in axes.collections if hasattr(x, "get_segments")]
        for i, (end, arrow) in enumerate(zip((low, high), arrows, strict=True)):
            assert len(marks(axes, arrow)) == (0 if end else len(shown.contests))
            edge = (axes.get_ylim() if upright else axes.get_xlim())[i]
            assert [line[i] for line in lines] == [end or edge] * len(shown.contests)
        assert ("interval goes on" in words(figure)) == (low is None or high is None)


def test_margins_work_and_what_has_no_ratio_are_told() -> None:
    shown = run(
        transposed(8, work_ratio=2.0),
        transposed(8, "mkl", margin=0.04),
        transposed(8, "torch", value=None, verdict="not comparable", reason="torch crashes"),
    )
    figure = one(ratio.draw(shown))
    told = words(figure)
    assert "margin ±1 %, 4 %" in told and "ratio of the work" in told
    assert "1 of 3" in told and "torch crashes" in told
    (work,) = marks(figure.axes[0], "x")
    assert list(work.get_xdata()) == [2.0]
    assert len(figure.axes[0].patches) == 2


def test_of_many_ratios_those_near_to_1_are_left_out() -> None:
    shown = run(*(transposed(8, f"v{i}", value=1 + i / 100) for i in range(50)))
    figure = one(ratio.draw(shown))
    labels = [x.get_text() for x in figure.axes[0].get_yticklabels()]
    assert labels == [f"v{i}" for i in range(10, 50)]
    assert "10 more are left out, all within 9 %" in words(figure)
    shown = run(transposed(9, "v0", value=1.0), *(transposed(8, f"v{i}", value=2.0) for i in range(40)))
    (axes,) = one(ratio.draw(shown)).axes
    assert axes.get_yticklabels()[0].get_text() == "v0, M = 8"


def mixed(layer: str, other: str = "forward") -> Contest:
    """A normalization against the convolution before it."""
    name = f"beside/layer:{layer}/variant:c"
    first = replace(convolution(3, "torch", 1e-3, direction=other), contest=name)
    wgrad = replace(convolution(3, "torch", 1e-3, direction="wgrad"), contest=name)
    norm = replace(
        case(8, variant="c", contest=name), op="norm", name="norm/maps:8", problem={"maps": 8, "mode": "train"}
    )
    pairs = tuple(compared(x, first) for x in (wgrad, norm))
    return Contest(name, "what does a normalization cost?", "work: differs (layer)", (first, wgrad, norm), pairs)


def test_cases_of_two_operations_are_named_by_their_contest() -> None:
    figure = one(ratio.draw(run(mixed("conv1"), mixed("conv2"))))
    readable(figure)
    (axes,) = figure.axes
    labels = [x.get_text() for x in axes.get_yticklabels()]
    assert labels[:2] == ["layer conv1: conv torch, direction wgrad", "layer conv1: norm c"]
    assert axes.get_xlabel() == "time over that of conv torch, direction forward"


def test_both_are_named_where_baselines_differ() -> None:
    (axes,) = one(ratio.draw(run(mixed("conv1"), mixed("conv2", "dgrad")))).axes
    labels = [x.get_text() for x in axes.get_yticklabels()]
    assert labels[3] == "layer conv2: norm c / conv torch, direction dgrad"
    assert axes.get_xlabel() == "time of the first over time of the second"


def test_the_axis_holds_the_margin_and_no_interval_that_presses_others_flat() -> None:
    (axes,) = one(ratio.draw(run(transposed(8, value=1.0005, low=1.0004, high=1.0006)))).axes
    assert axes.get_xlim()[0] < 0.99 and axes.get_xlim()[1] > 1.01
    (axes,) = one(ratio.draw(run(transposed(8, low=1.4, high=1.6), transposed(64, low=0.1, high=20.0)))).axes
    assert marks(axes, "<") and marks(axes, ">") and axes.get_xlim()[1] < 3.0
