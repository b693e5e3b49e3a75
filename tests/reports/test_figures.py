"""Pictures of runs: which are drawn, how cases are named and grouped, that nothing is cut or misleads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from reports import figures, store
from reports.figures import _groups, _style, _sweep, rate, ratio, samples
from reports.record import Contest, Run
from tests.build import FMA, case, compared, contest, convolution, run, transposed
from tests.conftest import Ran
from tests.processes import python
from tests.reports.pictures import SWEEP, readable, words

HOSTILE = ("/home/ü/my $k$_1.py:漢字", "_x%2F\n$\\frac{", "x" * 150, "😀", "<b>&amp;")


def test_a_run_on_the_fake_device_makes_pictures(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    words = "--m 8,16,32 --n 8 --k 8 --trans nn,nt --vary trans --variant openblas,numpy --device fake -q -o"
    gemm(*words.split(), str(tmp_path / "run"))
    paths = figures.draw(store.read(tmp_path / "run"), tmp_path / "a" / "b", "stem")
    names = ("stem-rate-trans.png", "stem-ratio-trans.png", "stem-samples.png")
    assert paths == [tmp_path / "a" / "b" / name for name in names]
    for path in paths:
        head = path.read_bytes()[:24]
        assert head.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
        assert 950 <= width <= 1050 and 150 <= height <= 2000


def test_what_is_not_in_the_run_is_not_drawn(tmp_path: Path) -> None:
    lone = case(8)
    checked = replace(lone, status="ran", seconds=None, samples=(), flops_per_second=None)
    none = compared(checked, checked, None)
    for shown, names in (
        (run(), ""),
        (run(contest(differs="trans")), ""),
        (run(contest(checked, comparisons=(none,))), ""),
        (run(contest(lone, differs="trans")), "rate-c samples"),
        (run(Contest("c", "?", "trans", (replace(lone, samples=()),), ())), "rate-c"),
        (run(transposed(8)), "rate-nn-nt ratio-nn-nt samples"),
    ):
        assert sorted(x.stem for x in figures.draw(shown, tmp_path)) == names.split()


def test_pictures_leave_the_rest_of_the_process_alone(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom reports import figures\n"
        "assert 'matplotlib' not in sys.modules and figures.kinds()\n"
        "from tests.reports.pictures import SWEEP\nimport matplotlib\n"
        "matplotlib.rcParams['axes.facecolor'] = before = 'red'\n"
        "figures.draw(SWEEP, Path(sys.argv[1]))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.rcParams['axes.facecolor'] == before\n"
    )
    ran = python("-W", "error", "-c", code, str(tmp_path))
    assert (ran.returncode, ran.stderr) == (0, "")


def test_the_readers_own_style_is_not_used(tmp_path: Path) -> None:
    import matplotlib

    figures.draw(SWEEP, tmp_path, "plain")
    with matplotlib.rc_context({"font.size": 30, "text.usetex": True, "axes.facecolor": "black"}):
        figures.draw(SWEEP, tmp_path, "styled")
    for kind in ("rate-nn-nt", "ratio-nn-nt", "samples"):
        plain, styled = ((tmp_path / f"{name}-{kind}.png").read_bytes() for name in ("plain", "styled"))
        assert plain == styled


def every(shown: Run) -> Iterator[Figure]:
    for module in (rate, ratio, samples):
        yield from (figure for _, figure in module.draw(shown))


def rename(shown: Run, names: tuple[str, ...]) -> Run:
    """The run with other words for its variants and its questions."""
    contests = []
    for i, made in enumerate(shown.contests):
        variant = names[i % len(names)]
        results = tuple(replace(x, variant=variant) if x.role == "measured" else x for x in made.results)
        contests.append(replace(made, contest=made.contest + variant, question=variant, results=results))
    return replace(shown, contests=tuple(contests))


def on_threads(*counts: int) -> Contest:
    name = "gemm/m:8/variant:x/threads:{}"
    results = (case(8, threads=t, name=name.format(t), percent_of_ceiling=40 / t) for t in counts)
    return contest(*results, FMA, question="what do threads bring?", differs="threads")


LAYOUTS = {
    "threads": run(on_threads(3, 4)),
    "many threads": run(on_threads(1, 2, 4, 8, 16, 32)),
    "a long question": run(replace(transposed(8), question="is this slower than that? " * 9)),
    "a question of one line": run(replace(transposed(8), question="is this slower than that? " * 4)),
    "lines": SWEEP,
    "rows": run(*(transposed(8, f"v{i}") for i in range(7))),
    "one": run(transposed(8)),
    "no end": run(*(transposed(m, low=None) for m in (1, 8, 64))),
    "hostile lines": rename(SWEEP, HOSTILE),
    "hostile rows": rename(run(*(transposed(8) for _ in HOSTILE)), HOSTILE),
    "large ratios": run(*(transposed(8, f"v{i}", value=10.0**i) for i in range(7))),
    "many sizes": run(*(transposed(m) for m in (1, 2, 3, 5, 1000, 1001, 1100, 1300, 1_000_000))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_no_text_is_cut_or_touches_another(name: str) -> None:
    for figure in every(LAYOUTS[name]):
        readable(figure)


def test_no_text_is_taken_for_a_formula() -> None:
    assert _style.shown("a $x$ \n漢\x00") == "a \\$x\\$  □ "
    (figure,) = (made for _, made in ratio.draw(rename(run(transposed(8)), ("$\\frac{1}$",))))
    assert "\\$\\frac{1}\\$" in words(figure)


def test_a_variant_has_one_color_in_all_pictures() -> None:
    names = [f"v{i}" for i in range(30)]
    shown = run(*(transposed(8, name) for name in names))
    looks = _style.looks(shown)
    assert len({looks[name] for name in names}) == len(names)
    assert _style.looks(SWEEP)["mkl"] == _style.looks(run(transposed(8, "mkl")))["mkl"]
    for figure in every(SWEEP):
        colors = {to_hex(line.get_color()) for axes in figure.axes for line in axes.lines}
        assert {_style.looks(SWEEP)[name].color.lower() for name in ("openblas", "mkl")} <= colors


@pytest.mark.parametrize(
    ("cases", "field", "titles"),
    [
        ([{"m": m, "k": 8} for m in (1, 2, 4)], "m", [""]),
        ([{"m": m, "k": k} for m in (1, 2, 4) for k in (8, 16)], "m", ["K = 8", "K = 16"]),
        ([{"m": m, "k": k} for m in (1, 2) for k in (8, 16, 32)], "k", ["M = 1", "M = 2"]),
        ([*({"m": m, "k": 8} for m in (1, 2, 4)), {"m": 1, "k": 9}], "m", ["K = 8", "K = 9"]),
        ([{"m": m} for m in (1, 2)], None, []),
        ([{"m": m} for m in (1, 2, 4, 4)], None, []),
        ([{"m": m, "k": m} for m in (1, 2, 4)], None, []),
        ([{"trans": t} for t in ("nn", "nt", "tt")], None, []),
        ([{"m": m, "variant": f"v{v}"} for v in range(12) for m in (1, 2, 4)], "m", [""]),
        ([{"m": m, "variant": f"v{v}"} for v in range(13) for m in (1, 2, 4)], None, []),
    ],
)
def test_the_field_that_makes_lines(cases: list[dict[str, Any]], field: str | None, titles: list[str]) -> None:
    made = _sweep.sweep(cases)
    assert (made.field if made else None) == field
    if titles:
        assert made is not None and [x.title for x in made.facets] == titles


@pytest.mark.parametrize(
    "kinds", [("a/../../b", "", "x" * 300), ("a b", "a-b", "A/b"), ("x" * 300, "x" * 301), ("…", "!")]
)
def test_words_for_names_of_files(kinds: tuple[str, ...]) -> None:
    """Slugs of all kinds of contests differ and stay inside the folder."""
    slugs = [x.slug for x in _groups.groups(run(*(transposed(8, kind=kind) for kind in kinds)))]
    assert len({*slugs}) == len(kinds)
    assert not any("/" in slug or len(slug) > 50 for slug in slugs)


def test_one_question_for_all() -> None:
    for questions, told in (
        (["is it?"], "Is it?"),
        (["does openblas pay?", "does mkl pay?"], "Does each variant pay?"),
        (["which at gemm/m:1/k:8?", "which at gemm/m:2/k:8?"], "Which at each size?"),
        (["which at gemm/m:1/k:8?"], "Which at this size?"),
        (["at M = 1?", "at M = 2?"], "At M = …?"),
        (["a b c", "a b"], "A b …"),
    ):
        pairs = zip(questions, ("openblas", "mkl"), strict=False)
        (group,) = _groups.groups(run(*(replace(transposed(8, v), question=q) for q, v in pairs)))
        assert group.question == told


def test_pairs_in_words() -> None:
    first, second = _groups.facts(case(8)), _groups.facts(case(8, "nt"))
    cold = _groups.facts(case(8, cold=("a", "b")))
    avx2 = _groups.facts(case(8, isa="avx2"))
    assert _groups.pair_label(second, first, ["variant", "m"]) == "openblas, M = 8: nt / nn"
    assert _groups.pair_label(second, first, ["variant", "m"], short=True) == "openblas, M = 8"
    assert _groups.pair_label(second, first, [], short=True) == "nt / nn"
    assert _groups.contrast(cold, first) == ("cold a+b", "warm")
    assert _groups.contrast(avx2, first) == ("avx2", "default isa")
    assert _groups.words("threads", 1) == "1 thread" and _groups.words("ld_pad", 16) == "ld_pad 16"


def test_words_are_as_the_record_says() -> None:
    """A number of bytes has its unit; a word stands first and without its name."""
    for axes, told in (({}, "size 4096"), ({"size": "bytes"}, "size 4 KiB")):
        known = _groups.facts(case(8, problem={"size": 4096}, axes=axes))
        assert _groups.words("size", known["size"]) == told
    known = _groups.facts(case(8, problem={"count": 8, "mode": "train"}, axes={"mode": "word"}))
    assert _groups.case_label(known, ["variant", "mode", "count"]) == "openblas, train, count 8"
    assert list(known)[:3] == ["variant", "mode", "count"]


def test_convolutions_are_named_by_their_layer() -> None:
    every = [convolution(edge, "direct", 1.0, direction=each) for edge in (3, 5) for each in ("forward", "dgrad")]
    assert _groups.case_labels(every) == [f"{e}×{e}, 4→8, 9×9, {each}" for e in (3, 5) for each in ("forward", "dgrad")]
    assert _groups.case_labels([convolution(3, "direct", 1.0, pad=pad) for pad in (0, 1)]) == ["pad 0", "pad 1"]
