"""Answers of gemm, and what a log's or a network's convolutions could gain, on records made by hand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from micro.answers import conv_ranked
from micro.answers.gemm import transpose_answer
from micro.answers.gemm_network import answer
from micro.planning import conv_layers
from micro.planning.contest import Case, parse
from micro.planning.library_log import Calls
from micro.planning.network import Product, read
from micro.planning.problem_files import Written, of_network
from reports import record
from reports.record import Contest
from tests.build import over, run, timed
from tests.conftest import Ran

NET = """{"network": "made", "batch": 8, "layers": [
    {"name": "in", "inputs": 3, "outputs": 5, "first": true}, {"name": "one", "inputs": 5, "outputs": 5},
    {"name": "two", "inputs": 5, "outputs": 5}, {"name": "out", "inputs": 5, "outputs": 2}]}"""
CONTESTS = 2 + 3 + 3


def contest(
    product: Product, seconds: float | None, ratio: float | None, half: float | None, library: str = "openblas"
) -> Contest:
    """OI took so long; IO so many times that, give or take."""
    name = f"net/made/{product.phase}/{'+'.join(product.layers)}/variant:{library}"
    rows = [timed(Case(problem, library), seconds) for problem in dict.fromkeys((product.oi, product.io))]
    ceiling = replace(timed(Case(product.oi, "naive"), 1.0), role="ceiling")
    ends = (None, None) if half is None or ratio is None else (ratio - half, ratio + half)
    pairs = [over(rows[0], x, ratio=ratio, low=ends[0], high=ends[1]) for x in rows[1:]]
    return Contest(name, "?", "layout", (*rows, ceiling), tuple(pairs))


@pytest.fixture
def made(tmp_path: Path) -> tuple[Product, ...]:
    path = tmp_path / "net.json"
    path.write_text(NET)
    return read(str(path)).products


def alike(made: tuple[Product, ...], ratio: float, half: float, library: str = "openblas") -> list[Contest]:
    """Each product 1 ms in OI, all with one ratio; that of squares is one product."""
    return [contest(product, 1e-3, ratio, half, library) for product in made]


def numbers(sentence: str) -> tuple[float, float, float]:
    """A step's ratio and its interval."""
    found = re.search(r"and ([\d.]+) \[([\d.]+), ([\d.]+)\] times that", sentence)
    assert found, sentence
    return float(found[1]), float(found[2]), float(found[3])


def test_a_step_is_the_sum_of_its_products(made: tuple[Product, ...]) -> None:
    """Known numbers: `one` and `two` do one product each phase, which counts twice."""
    given = {  # seconds of one in OI, ratio, half-width
        "in forward": (4e-3, 1.1, 0.02),
        "in wgrad": (1e-3, 0.9, 0.01),
        "one+two forward": (2e-3, 0.8, 0.05),
        "one+two dgrad": (3e-3, 1.5, 0.04),
        "one+two wgrad": (5e-3, 1, 0),
        "out forward": (1e-3, 1.0, 0.03),
        "out dgrad": (2e-3, 1.2, 0.1),
        "out wgrad": (1e-3, 1.0, 0.02),
    }
    said = answer(run(*(contest(product, *given[product.name]) for product in made)))
    counts = {name: name.count("+") + 1 for name in given}
    oi = sum(counts[name] * s for name, (s, _, _) in given.items())
    io = sum(counts[name] * s * r for name, (s, r, _) in given.items())
    half = math.sqrt(sum((counts[name] * s * h) ** 2 for name, (s, _, h) in given.items())) / oi
    assert (round(oi, 6), round(io, 6)) == (0.029, 0.0319)
    assert len(said) == 2
    assert "The products of a made step, batch 8, take 29.0 ms with W out×in (OI) in openblas" in said[0]
    assert numbers(said[0]) == pytest.approx((io / oi, io / oi - half, io / oi + half), abs=0.0051)
    assert "the dgrad's transposed W costs more than the forward's" in said[0]
    assert said[0].endswith("the largest difference is in one+two dgrad, +3.00 ms.")


@pytest.mark.parametrize(
    ("ratio", "verdict", "sign"),
    [
        (1.2, "the dgrad's transposed W costs more than the forward's", "+"),
        (0.8, "the forward's transposed W costs more than the dgrad's", "−"),
        (1.001, "no measurable difference between the layouts", "+"),
        (0.999, "no measurable difference between the layouts", "−"),
    ],
)
def test_verdicts(made: tuple[Product, ...], ratio: float, verdict: str, sign: str) -> None:
    said = answer(run(*alike(made, ratio, 0.01)))[0]
    assert f": {verdict}; " in said
    assert re.search(rf", {sign}\d", said)


def test_a_square_wgrad_is_one_product_of_ratio_1(made: tuple[Product, ...]) -> None:
    """Of 11 ms all but the two of the squares' wgrad take 1.2 times as long."""
    square = next(x for x in made if x.name == "one+two wgrad")
    assert len(contest(square, 1.0, 9.0, 0.0).results) == 2  # a ceiling beside it
    said = answer(run(*alike(made, 1.2, 0.0)))[0]
    assert numbers(said)[0] == pytest.approx((2 + 9 * 1.2) / 11, abs=0.0001)


def test_products_are_independent_and_twice_the_same_is_not(made: tuple[Product, ...]) -> None:
    """Ten halves of 1 %: those of `one` and `two` are one, and count twice."""
    said = answer(run(*alike(made, 1.0, 0.1)))[0]
    half = 0.1 * math.sqrt(5 + 2 * 2**2) / 11  # five alone; two of a pair; a square has none
    ratio, low, high = numbers(said)
    assert half > 0.02
    assert (ratio - low, high - ratio) == pytest.approx((half, half), abs=0.0051)


@pytest.mark.parametrize(
    ("name", "seconds", "ratio"),
    [("out dgrad", None, None), ("out dgrad", 1e-3, None), ("out dgrad", 1e-3, 1.1), ("one+two wgrad", None, 1.1)],
)
def test_without_one_ratio_a_step_has_none(
    made: tuple[Product, ...], name: str, seconds: float | None, ratio: float | None
) -> None:
    told = alike(made, 1.1, 0.01)
    at = next(i for i, product in enumerate(made) if product.name == name)
    told[at] = contest(made[at], seconds, ratio, None)
    said = answer(run(*told))
    assert said[0] == f"openblas: {name} has no ratio, hence none for the step." and len(said) == 2


def test_who_reads_w_transposed(made: tuple[Product, ...]) -> None:
    assert answer(run(*alike(made, 1.1, 0.01)))[-1] == (
        "W is read transposed (NT) in OI by in forward, one+two forward, out forward; in IO by one+two dgrad, "
        "out dgrad; every wgrad is TN in both."
    )


@pytest.mark.parametrize("library", ["mkl", "file.py:product", "/a/b.py:product", "kept-transpose:8"])
def test_libraries_are_summed_apart(made: tuple[Product, ...], library: str) -> None:
    told = [*alike(made, 1.2, 0.0), *alike(made, 0.8, 0.0, library)]
    first, second, _ = answer(run(*told))
    assert "in openblas, and 1.1636" in first
    assert f"in {library}, and 0.8364" in second


def test_contests_of_other_questions_do_not_count(made: tuple[Product, ...]) -> None:
    other = contest(made[0], 5.0, 3.0, 0.0)
    other = Contest("nn-nt/gemm/m:8", "?", "trans", other.results, other.comparisons)
    assert answer(run(*alike(made, 1.2, 0.0), other)) == answer(run(*alike(made, 1.2, 0.0)))
    assert answer(run(other)) == answer(run()) == []


# Through the command line

Gemm_ = Callable[..., Ran]


def test_a_network_is_measured(gemm: Gemm_, tmp_path: Path) -> None:
    """Each library is summed on each device, a kernel from a path too."""
    (tmp_path / "net.json").write_text(NET)
    (tmp_path / "mine.py").write_text("from kernels.ops.gemm.variants import VARIANTS\nROW = VARIANTS[0]\n")
    mine = f"{tmp_path}/mine.py:ROW"
    words = ("--net", str(tmp_path / "net.json"), "--device", "fake,fake:cpu", "--budget", "60s")
    ran = gemm(*words, "--variant", f"openblas,{mine}", "--json", "-")
    told, text = json.loads(ran.out), " ".join(ran.err.split())
    assert ran.code == 0
    for library in ("openblas", mine, "openblas on fake:cpu"):
        assert f"(OI) in {library}, and " in text
    measured = [x["name"] for x in told["results"] if x["role"] == "measured"]
    assert len(measured) == 4 * (2 * CONTESTS - 1)  # the squares' wgrad is one


def test_another_batch_is_asked_with_m(gemm: Gemm_) -> None:
    ran = gemm("--net", "lenet", "--m", "5", "--device", "fake", "--variant", "openblas", "--list")
    cases = [parse(line.split()[0]).problem for line in ran.out.splitlines() if line.startswith("  ")]
    assert {x.k if x.trans == "tn" else x.m for x in cases} == {5}  # type: ignore[attr-defined]


PUBLISHED = Gemm(1024, 2048, 3344)
CLAIM = "the published claim of 3 times (arXiv 1608.07249)"


def of_sizes(word: str, m: int, library: str, ratio: float | None, verdict: str, nn: float = 1e-3) -> Contest:
    """NT over NN; a ratio of None has 3 rounds and no interval."""
    base = replace(PUBLISHED, m=m)
    times = {base: nn, replace(base, trans="nt"): nn * (ratio or 1.0)}
    first, second = (
        timed(Case(problem, library), t, samples=(t,) * (8 if ratio else 3)) for problem, t in times.items()
    )
    few = {} if ratio else {"ratio": None, "low": None, "high": None}
    return Contest(f"{word}/{base.name}", "?", "trans", (first, second), (over(first, second, 0.05, verdict, **few),))


def transpose_said(*contests: Contest) -> list[str]:
    return transpose_answer(run(*contests))


ODD = of_sizes("nn-nt", 1, "openblas-scipy", 0.32, "faster", nn=15e-3)
USUAL = of_sizes("nn-nt", 1, "numpy", 1.03, "unresolved", nn=2e-3)


def test_the_published_shape_comes_first_and_the_odd_case_is_said_to_be_one() -> None:
    published, libraries, odd, *_ = transpose_said(of_sizes("strategy", 1024, "openblas", 1.2, "slower"), ODD, USUAL)
    assert published == (
        "Of the published M and N (1024×3344 times 2048×3344 transposed) the product takes 1.20 [1.14, 1.26] times "
        f"as long as untransposed, in OpenBLAS on this machine (slower); {CLAIM} is refuted here: "
        "not 3 times, 1.14 to 1.26."
    )
    assert (
        libraries
        == "By library, NT/NN at M = 1: openblas-scipy 0.32, certain in 1 of 1; numpy 1.03, certain in 0 of 1."
    )
    assert odd == (
        "The largest certain difference within a library at one M: NN in openblas-scipy at M = 1 takes longer "
        "than NT, NT/NN is 0.320 [0.304, 0.336], chosen from 3 in the same rounds; certain in 2 of 3. The product "
        "takes 15.0 ms in openblas-scipy, and 2.00 ms in numpy."
    )


def test_without_an_interval_at_the_published_shape_that_is_the_first_sentence() -> None:
    first, _, odd = transpose_said(of_sizes("strategy", 1024, "openblas", None, "unresolved"), ODD, USUAL)
    assert first == (
        "At the published M and N (1024×3344 times 2048×3344 transposed) the cost of transposing in "
        "OpenBLAS on this machine is not certain: only 3 undisturbed rounds, rerun with --budget 120s. "
        f"Undecided: {CLAIM}."
    )
    assert odd.startswith("The largest certain difference within a library at one M")
    assert transpose_said(of_sizes("strategy", 64, "openblas", 1.2, "slower"))[0].startswith(
        "Of the requested shape (64×3344 times"
    )


def test_libraries_are_summed_up_over_all_sizes() -> None:
    sizes = [
        of_sizes("nn-nt", m, "torch", ratio, verdict) for m, ratio, verdict in ((8, 1.5, "slower"), (64, 1.0, "same"))
    ]
    libraries, odd = transpose_said(*sizes, USUAL)
    assert libraries == (
        "By library, NT/NN at M = 1 to 64: torch 1.00 to 1.50, certain in 1 of 2; numpy 1.03, certain in 0 of 1."
    )
    assert "NT in torch at M = 8 takes longer than NN" in odd and odd.endswith("certain in 1 of 3.")


@pytest.mark.parametrize("ratio", [1.0, 1.03])
def test_where_nothing_is_certain_there_is_no_largest(ratio: float) -> None:
    *_, last = transpose_said(of_sizes("nn-nt", 8, "torch", ratio, "unresolved"), USUAL)
    assert last.startswith("No certain difference between a transposed B (NT) and an untransposed B")


@pytest.mark.parametrize(("ratio", "says"), [(1.2, "(unresolved at 99 %)"), (1.02, "(unresolved)")])
def test_unresolved_beside_an_interval_that_excludes_1_says_at_which_level(ratio: float, says: str) -> None:
    (first, *_) = transpose_said(of_sizes("strategy", 1024, "openblas", ratio, "unresolved"))
    assert f"{says}; the published claim" in first


FIRST = Conv(64, 3, 32, 32, 32, 5, 5, pad=2)
SECOND = Conv(64, 64, 16, 16, 64, 3, 3, pad=1)
DGRAD = replace(SECOND, direction="dgrad")


def rivals(
    problem: Conv, default: float | None, *rivals: tuple[str, float, str], name: str = "", threads: int = 1
) -> record.Contest:
    """Against torch: variant, ratio ± 0.02, verdict."""
    base = timed(Case(problem, "torch"), default)
    others = [timed(Case(problem, x, Setting(threads)), ratio * (default or 1)) for x, ratio, _ in rivals]
    known = tuple(
        over(base, x, 0.02 / ratio, verdict if default else "not comparable", reason=base.reason)
        for x, (_, ratio, verdict) in zip(others, rivals, strict=True)
    )
    return record.Contest(name or problem.name, "?", "variant", (base, *others), known)


def log(**counts: int) -> Written:
    """Of calls of 1 ms each, and as many of something else."""
    problems = {"first": FIRST, "second": SECOND, "dgrad": DGRAD}
    calls = {problems[name]: Calls(count, 1e-3 * count) for name, count in counts.items()}
    ours = sum(calls.values(), Calls(0, 0.0))
    return Written(list(calls), (), calls, ours + ours)


def test_a_log_is_ranked_by_what_its_steps_could_gain() -> None:
    contests = (
        rivals(FIRST, 8e-3, ("im2col", 0.9, "faster"), ("direct", 0.5, "faster"), ("fft-scipy", 0.2, "unresolved")),
        rivals(SECOND, 4e-3, ("winograd-4x3", 0.5, "faster")),
        rivals(DGRAD, 9e-3, ("winograd-4x3", 0.97, "unresolved")),
    )
    sentences = conv_ranked.of_file(run(*contests), log(first=20, second=60, dgrad=20))
    assert sentences == [
        "1. forward, 3×3, 64→64 channels, 16×16, batch 64: 60 calls (30.0% of the logged time); torch takes 4.00 ms, "
        "winograd-4x3 0.500 [0.480, 0.520] times that: saves 6.00 ms [5.76 ms, 6.24 ms] a step.",
        "2. forward, 5×5, 3→32 channels, 32×32, batch 64: 20 calls (10.0% of the logged time); torch takes 8.00 ms, "
        "direct 0.500 [0.480, 0.520] times that: saves 4.00 ms [3.84 ms, 4.16 ms] a step.",
        "3. dgrad, 3×3, 64→64 channels, 16×16, batch 64: 20 calls (10.0% of the logged time); torch takes 9.00 ms, and "
        "no variant is certainly faster.",
        "A step's convolutions (all call counts are multiples of 20, assumed to be the log's steps) take 29.0 ms "
        "with torch; 10.0 ms [9.71 ms, 10.3 ms] of it (34%) can be saved, each fastest variant chosen from up to 3 "
        "in the same rounds; kernels that cache a transformed filter are excluded, since a step changes it.",
    ]


def test_a_log_of_no_common_number_is_taken_whole() -> None:
    contests = rivals(FIRST, 8e-3, ("direct", 0.5, "faster")), rivals(SECOND, 1e-3, ("direct", 0.9, "slower"))
    first, *_, last = conv_ranked.of_file(run(*contests), log(first=3, second=2))
    assert "saves 12.0 ms [11.5 ms, 12.5 ms]" in first
    assert last.startswith("The log's convolutions take 26.0 ms with torch; 12.0 ms [11.5 ms, 12.5 ms] of it (46%)")


def test_what_has_no_time_is_named_and_no_part_of_the_sum() -> None:
    contests = rivals(FIRST, None, ("direct", 0.5, "x")), rivals(SECOND, 4e-3, ("direct", 0.5, "faster"))
    sentences = conv_ranked.of_file(run(*contests), log(first=2, second=2))
    assert sentences[1] == (
        "forward, 5×5, 3→32 channels, 32×32, batch 64: 2 calls (25.0% of the logged time), not ranked: hangs."
    )
    assert "take 4.00 ms with torch" in sentences[2]


def test_what_is_no_rival_in_a_step() -> None:
    """A kernel that keeps its filter, and one on more threads."""
    contested = rivals(SECOND, 8e-3, ("fft-scipy-kept", 0.1, "faster"), ("direct", 0.5, "faster"))
    first, last = conv_ranked.of_file(run(contested), log(second=1))
    assert "direct 0.500" in first and "chosen from" not in last
    contested = rivals(FIRST, 8e-3, ("direct", 0.5, "faster"), threads=2)
    first, last = conv_ranked.of_file(run(contested), log(first=1))
    assert first.endswith("and no variant is certainly faster.")
    assert "take 8.00 ms with torch; no certain gain; " in last
    *_, sentence = conv_ranked.of_file(run(rivals(FIRST, 8e-3, ("direct", 0.5, "faster"))), Written([FIRST]))
    assert sentence.endswith(", relative to torch: direct 0.500 [0.480, 0.520].")


def test_a_network_counts_its_layers_and_shows_what_was_published() -> None:
    layer = conv_layers.read("convnet-benchmarks").layers[1].problem
    named = rivals(layer, 2e-3, ("fft-scipy", 0.5, "faster"), name=f"net/convnet-benchmarks/L2/count:3/{layer.name}")
    first, last = conv_ranked.of_net(run(named))
    assert first.startswith("1. L2, forward, 9×9, 64→128 channels, 64×64, batch 128: 3 calls; torch takes 2.00 ms, fft")
    assert "saves 3.00 ms [2.88 ms, 3.12 ms] (then, in ms at batch 128 on a GeForce GTX Titan X, " in first
    assert ", April 2015: fbfft 27, " in first
    assert last.startswith("A step's convolutions take 6.00 ms with torch; 3.00 ms")


def test_a_network_without_published_times() -> None:
    for name in ("mine", "alexnet-s"):
        named = rivals(FIRST, 2e-3, ("direct", 0.5, "faster"), name=f"net/{name}/conv1/count:1/{FIRST.name}")
        assert conv_ranked.of_net(run(named))[0].endswith("].")
    written = of_network(conv_layers.read("resnet-50"))
    counts = {word: sum(x.count for p, x in written.calls.items() if p.direction == word) for word in PASSES}
    assert counts == {"forward": 53, "dgrad": 52, "wgrad": 53}
    assert written.sentences == ["resnet-50: 53 convolutions, 23 distinct, batch 16."]


def test_a_network_s_file_has_counts_and_published_times() -> None:
    written = of_network(conv_layers.read("convnet-benchmarks"))
    assert {calls.count for calls in written.calls.values()} == {1} and len(written.problems) == 15
    assert all(text.startswith("then") for text in written.then.values()) and len(written.then) == 15
    (first, _) = conv_ranked.of_file(
        run(rivals(written.problems[1], 2e-3, ("direct", 0.5, "faster"))), replace(written, sentences=())
    )
    assert "(then (both gradients), in ms at batch 128 on a GeForce GTX Titan X, April 2015: fbfft 76, " in first


def test_nothing_measured_says_nothing() -> None:
    assert conv_ranked.of_file(run(), log(first=1)) == [] == conv_ranked.of_net(run())
