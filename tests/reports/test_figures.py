"""Pictures of runs: which are drawn, where to, and that nothing on them is cut, overlaps or misleads."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from reports import figures, store
from reports.figures import _style, rate, ratio, samples
from reports.record import Contest, Run
from tests.conftest import Ran
from tests.reports.made import FMA, SWEEP, case, compared, contest, readable, run, words

HOSTILE = ("/home/ü/my $k$_1.py:漢字", "_x%2F\n$\\frac{", "x" * 150, "😀", "<b>&amp;")


def test_the_folder_is_the_registry() -> None:
    folder = Path(figures.__file__).parent
    assert set(figures.kinds()) == {x.stem for x in folder.iterdir() if x.suffix == ".py" and x.stem[0] != "_"}
    assert {"ratio", "rate", "samples"} <= set(figures.kinds())


def test_a_run_on_the_fake_device_makes_pictures(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    gemm(
        "--m",
        "8,16,32",
        "--n",
        "8",
        "--k",
        "8",
        "--trans",
        "nn,nt",
        "--vary",
        "trans",
        "--variant",
        "openblas,numpy",
        "--device",
        "fake",
        "-q",
        "-o",
        str(tmp_path / "run"),
    )
    paths = figures.draw(store.read(tmp_path / "run"), tmp_path / "a" / "b", "stem")
    assert [x.name for x in paths] == ["stem-rate-trans.png", "stem-ratio-trans.png", "stem-samples.png"]
    assert {x.parent for x in paths} == {tmp_path / "a" / "b"}
    for path in paths:
        head = path.read_bytes()[:24]
        assert head.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
        assert 950 <= width <= 1050 and 150 <= height <= 2000


def test_without_a_stem_names_begin_with_the_kind(tmp_path: Path) -> None:
    names = {x.name for x in figures.draw(run(contest(8)), tmp_path)}
    assert names == {"rate-nn-nt.png", "ratio-nn-nt.png", "samples.png"}


def test_what_is_not_in_the_run_is_not_drawn(tmp_path: Path) -> None:
    lone = case(8)
    checked = replace(lone, status="ran", seconds=None, samples=(), flops_per_second=None)
    none = compared(checked, checked, None)
    for shown, names in (
        (run(), set()),
        (run(Contest("c", "?", "trans", (), ())), set()),
        (run(Contest("c", "?", "trans", (checked,), (none,))), set()),
        (run(Contest("c", "?", "trans", (lone,), ())), {"rate-c.png", "samples.png"}),
        (run(Contest("c", "?", "trans", (replace(lone, samples=()),), ())), {"rate-c.png"}),
    ):
        assert {x.name for x in figures.draw(shown, tmp_path)} == names


def test_pictures_leave_the_rest_of_the_process_alone(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom reports import figures\n"
        "assert 'matplotlib' not in sys.modules and figures.kinds()\n"
        "from tests.reports.made import SWEEP\nimport matplotlib\n"
        "matplotlib.rcParams['axes.facecolor'] = before = 'red'\n"
        "figures.draw(SWEEP, Path(sys.argv[1]))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
        "assert matplotlib.rcParams['axes.facecolor'] == before\n"
    )
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
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


SEVERAL, MANY = (
    tuple(
        case(8, threads=count, name=f"gemm/m:8/variant:x/threads:{count}", percent_of_ceiling=40 / count)
        for count in counts
    )
    for counts in ((3, 4), (1, 2, 4, 8, 16, 32))
)
LAYOUTS = {
    "threads": run(Contest("c", "what do threads bring?", "threads", (*SEVERAL, FMA), ())),
    "many threads": run(Contest("c", "what do threads bring?", "threads", (*MANY, FMA), ())),
    "a long question": run(replace(contest(8), question="is this slower than that? " * 9)),
    "a question of one line": run(replace(contest(8), question="is this slower than that? " * 4)),
    "lines": SWEEP,
    "rows": run(*(contest(8, f"v{i}") for i in range(7))),
    "one": run(contest(8)),
    "no end": run(*(contest(m, low=None) for m in (1, 8, 64))),
    "hostile lines": rename(SWEEP, HOSTILE),
    "hostile rows": rename(run(*(contest(8) for _ in HOSTILE)), HOSTILE),
    "large ratios": run(*(contest(8, f"v{i}", value=10.0**i) for i in range(7))),
    "many sizes": run(*(contest(m) for m in (1, 2, 3, 5, 1000, 1001, 1100, 1300, 1_000_000))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_no_text_is_cut_or_touches_another(name: str) -> None:
    for figure in every(LAYOUTS[name]):
        readable(figure)


def test_no_text_is_taken_for_a_formula() -> None:
    assert _style.shown("a $x$ \n漢\x00") == "a \\$x\\$  □ "
    (figure,) = (made for _, made in ratio.draw(rename(run(contest(8)), ("$\\frac{1}$",))))
    assert "\\$\\frac{1}\\$" in words(figure)


def test_a_variant_has_one_color_in_all_pictures() -> None:
    names = [f"v{i}" for i in range(30)]
    shown = run(*(contest(8, name) for name in names))
    looks = _style.looks(shown)
    assert len({looks[name] for name in names}) == len(names)
    assert _style.looks(SWEEP)["mkl"] == _style.looks(run(contest(8, "mkl")))["mkl"]
    for figure in every(SWEEP):
        colors = {to_hex(line.get_color()) for axes in figure.axes for line in axes.lines}
        assert {_style.looks(SWEEP)[name].color.lower() for name in ("openblas", "mkl")} <= colors
