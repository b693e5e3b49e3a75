"""From which filter size on a transform wins: by the interval, for certain, and against the fastest that sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kernels.ops.conv.problem import Conv
from micro.answers.conv_fft import crossovers
from reports import record, stats
from reports.record import Comparison
from tests.micro.conv_runs import result, run

LAYER = Conv(16, 64, 27, 27, 64, 3, 3, pad=1)
PLACE = "forward, 64→64 channels, 27×27, batch 16"
DOUBTFUL = 0.3  # half of an interval that a verdict does not follow from


def contest(edge: int, times: Mapping[str, float], half: float = 0.02, rounds: int = 8) -> record.Contest:
    """Each against torch: milliseconds, and half of each ratio's interval; none of fewer than six rounds."""
    problem = replace(LAYER, r=edge, s=edge, pad=0)
    timed = []
    for name, t in times.items():
        samples = tuple(1e-3 * t * (1 + 0.001 * (i % 3)) for i in range(rounds))
        timed.append(replace(result(problem, name, 1e-3 * t), samples=samples, rounds=tuple(range(rounds))))
    base, compared = timed[0], []
    for x in timed[1:]:
        ratio = times[x.variant] / times[base.variant]
        ends = ((1 - half) * ratio, (1 + half) * ratio) if rounds >= stats.FEWEST else (None, None)
        sure = ends[1] is not None and ends[1] < 0.99 and half < DOUBTFUL
        names = "fft", "variant", base.name, x.name
        known = ratio if rounds >= stats.FEWEST else None
        compared.append(Comparison(*names, known, *ends, 0.95, "faster" if sure else "unresolved", None, 0.01, 0.01))
    return record.Contest(f"fft/{problem.name}", "?", "variant", tuple(timed), tuple(compared))


def said(*contests: record.Contest) -> dict[str, str]:
    """By what a sentence begins with."""
    return {line.split(": ")[0]: line.partition(": ")[2] for line in crossovers(run(*contests))}


def test_fft_wins_from_the_smallest_filter_after_the_last_that_it_loses() -> None:
    ratios = {3: 1.5, 5: 0.7, 7: 1.0, 9: 0.6, 11: 0.4}
    told = said(*(contest(edge, {"torch": 1.0, "fft-scipy": ratio}) for edge, ratio in ratios.items()))
    assert told["fft-scipy"] == "below torch from 9×9 on (0.600 [0.588, 0.612] there), certain from 9×9 on."
    assert told[f"Where FFT begins to win, {PLACE}"].endswith(", of 3×3, 5×5, 7×7, 9×9, 11×11.")
    assert said(contest(3, {"torch": 1.0, "fft-scipy": 1.5}))["fft-scipy"] == "nowhere below torch."


def test_below_by_the_interval_and_certain_are_two_sizes() -> None:
    """The interval shown is the 95 % one; verdicts come from the 99 % one, and the margin."""
    doubtful = contest(5, {"torch": 1.0, "fft-pyfftw": 0.7}, half=DOUBTFUL)
    told = said(doubtful, contest(7, {"torch": 1.0, "fft-pyfftw": 0.5}))
    assert told["fft-pyfftw"] == "below torch from 5×5 on (0.70 [0.49, 0.91] there), certain from 7×7 on."
    assert said(doubtful)["fft-pyfftw"].endswith("certain nowhere.")


def test_sizes_without_an_interval_are_named() -> None:
    times = {"torch": 1.0, "fft-scipy": 0.5}
    few = [contest(3, times, rounds=4), contest(9, times, rounds=5)]
    head = f"Where FFT begins to win, {PLACE}"
    told = said(*few, contest(7, times))
    assert told[head].endswith(
        "below 1, of 7×7; none for 3×3, 9×9, which had 4 to 5 undisturbed rounds: a longer --budget."
    )
    assert told["fft-scipy"].startswith("below torch from 7×7 on")
    alone = said(*few)
    assert alone[head].endswith("below 1; none for 3×3, 9×9, which had 4 to 5 undisturbed rounds: a longer --budget.")
    assert "fft-scipy" not in alone


def test_the_fastest_that_sums_is_the_fairer_rival() -> None:
    sizes = {5: {"torch": 1.0, "direct": 0.6, "fft-scipy": 0.8}, 7: {"torch": 1.0, "direct": 0.6, "fft-scipy": 0.3}}
    told = said(*(contest(edge, times) for edge, times in sizes.items()))
    assert told["fft-scipy"].startswith("below torch from 5×5 on (0.80")
    assert "; below direct, the fastest that sums, from 7×7 on (0.50" in told["fft-scipy"]
    assert said(contest(5, sizes[5]))["fft-scipy"].endswith("; nowhere below the fastest that sums.")


def test_transforms_inside_a_library_are_told_too() -> None:
    assert said(contest(7, {"torch": 1.0, "cudnn-fft": 0.5}))["cudnn-fft"].startswith("below torch from 7×7")
