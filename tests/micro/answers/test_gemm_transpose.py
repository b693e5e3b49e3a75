"""--transpose: the published shape first, then library by library, and the largest effect as what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.ops.gemm.problem import Gemm
from micro.answers.gemm import transpose_answer
from micro.planning.contest import Case
from reports.record import Contest
from tests.build import over, run, timed

PUBLISHED = Gemm(1024, 2048, 3344)
CLAIM = "the published claim is 3 times (arXiv 1608.07249)."


def contest(word: str, m: int, library: str, ratio: float | None, verdict: str, nn: float = 1e-3) -> Contest:
    """NT over NN; a ratio of None has 3 rounds and no interval."""
    base = replace(PUBLISHED, m=m)
    times = {base: nn, replace(base, trans="nt"): nn * (ratio or 1.0)}
    first, second = (
        timed(Case(problem, library), t, samples=(t,) * (8 if ratio else 3)) for problem, t in times.items()
    )
    few = {} if ratio else {"ratio": None, "low": None, "high": None}
    return Contest(f"{word}/{base.name}", "?", "trans", (first, second), (over(first, second, 0.05, verdict, **few),))


def said(*contests: Contest) -> list[str]:
    return transpose_answer(run(*contests))


ODD = contest("nn-nt", 1, "openblas-scipy", 0.32, "faster", nn=15e-3)
USUAL = contest("nn-nt", 1, "numpy", 1.03, "unresolved", nn=2e-3)


def test_the_published_shape_comes_first_and_the_odd_case_is_said_to_be_one() -> None:
    published, libraries, odd, *_ = said(contest("strategy", 1024, "openblas", 1.2, "slower"), ODD, USUAL)
    assert published == (
        "Of the published M and N (1024×3344 times 2048×3344 transposed) the product takes 1.20 [1.14, 1.26] times "
        f"what it takes untransposed, in OpenBLAS on this machine (slower); {CLAIM}"
    )
    assert (
        libraries
        == "By library, NT/NN at M = 1: openblas-scipy 0.32, certain in 1 of 1; numpy 1.03, certain in 0 of 1."
    )
    assert odd == (
        "The largest difference that is certain, of one library at one M: NN in openblas-scipy at M = 1 takes longer "
        "than NT, NT/NN is 0.320 [0.304, 0.336], chosen from 3 in the same rounds; certain in 2 of 3. That takes 15.0 "
        "ms there, and 2.00 ms in numpy."
    )


def test_without_an_interval_at_the_published_shape_that_is_the_first_sentence() -> None:
    first, _, odd = said(contest("strategy", 1024, "openblas", None, "unresolved"), ODD, USUAL)
    assert first == (
        "At the published M and N (1024×3344 times 2048×3344 transposed) it is not certain what transposing costs in "
        f"OpenBLAS on this machine: 3 undisturbed rounds, again with --budget 120s; {CLAIM}"
    )
    assert odd.startswith("The largest difference that is certain, of one library at one M")
    assert said(contest("strategy", 64, "openblas", 1.2, "slower"))[0].startswith(
        "Of the shape asked for (64×3344 times"
    )


def test_libraries_are_summed_up_over_all_sizes() -> None:
    sizes = [
        contest("nn-nt", m, "torch", ratio, verdict) for m, ratio, verdict in ((8, 1.5, "slower"), (64, 1.0, "same"))
    ]
    libraries, odd = said(*sizes, USUAL)
    assert libraries == (
        "By library, NT/NN at M = 1 to 64: torch 1.00 to 1.50, certain in 1 of 2; numpy 1.03, certain in 0 of 1."
    )
    assert "NT in torch at M = 8 takes longer than NN" in odd and odd.endswith("certain in 1 of 3.")


@pytest.mark.parametrize("ratio", [1.0, 1.03])
def test_where_nothing_is_certain_there_is_no_largest(ratio: float) -> None:
    *_, last = said(contest("nn-nt", 8, "torch", ratio, "unresolved"), USUAL)
    assert last.startswith("Nowhere here does a transposed B (NT) certainly take longer or less")


@pytest.mark.parametrize(("ratio", "says"), [(1.2, "(unresolved at 99 %)"), (1.02, "(unresolved)")])
def test_unresolved_beside_an_interval_that_excludes_1_says_at_which_level(ratio: float, says: str) -> None:
    (first, *_) = said(contest("strategy", 1024, "openblas", ratio, "unresolved"))
    assert f"{says}; the published claim" in first
