"""Answers of micro/memory.py about the width of vectors, in sentences."""

from __future__ import annotations

from micro.findings.select import Band, faster, pairs
from micro.planning.contest import parse
from reports import record, units
from reports.record import Comparison, Run

NAMES = {"scalar": "scalar code", "sse": "SSE", "avx2": "AVX2", "avx512": "AVX-512"}
BANDS = {  # times as fast as scalar code
    "sse": Band("SSE against scalar code", 2.7, 5.1, usual="3.4 to 3.9"),
    "avx2": Band("AVX2 against scalar code", 5.2, 9.9, usual="7.4 to 7.6"),
}
PEAK = Band(  # 0.92 on Zen 4, 0.70 to 0.72 on Zen 5, 1.0 on the Intel
    "That gain over the one of multiply-adds in registers", 0.7, 1.3, usual="0.7 to 1"
)


def simd_answer(run: Run) -> list[str]:
    """Report the speed-up of each width, and AVX-512 over AVX2 beside the ratio of their peaks."""
    return [
        sentence
        for contest in run.contests
        if contest.contest.startswith("simd/vector:")
        for sentence in _update(contest, run)
    ]


def _update(contest: record.Contest, run: Run) -> list[str]:
    """Report one update's ratios and bands, and the sets that this processor lacks."""
    pairs = {
        (parse(x.baseline).variant, parse(x.contender).variant): x for x in contest.comparisons if x.ratio is not None
    }
    scalar = {name: x for (first, name), x in pairs.items() if first == "scalar"}
    lacking = [f"{parse(x.name).variant}: {x.reason}" for x in contest.results if x.reason]
    sentences = [f"No figure for {reason}." for reason in lacking]
    if scalar:
        problem = parse(contest.results[0].name).problem
        gains = ", ".join(f"{NAMES[name]} {faster(x)}" for name, x in scalar.items())
        shown = units.binary(problem.vector)  # type: ignore[attr-defined]
        sentences.insert(
            0, f"y = y/2 + x in the first-level cache (vectors of {shown}), times as fast as scalar code: {gains}."
        )
    sentences += [BANDS[name].say(1 / (x.ratio or 1.0), faster(x)) for name, x in scalar.items() if name in BANDS]
    return sentences + _widest(pairs.get(("avx2", "avx512")), run)


def _widest(update: Comparison | None, run: Run) -> list[str]:
    """Compare AVX-512 with AVX2: registers wider than the execution units gain nothing."""
    peak = next((x.comparison for x in pairs(run, "simd/peak")), None)
    if update is None or peak is None:
        return []
    assert update.ratio is not None and peak.ratio is not None
    sentence = f"AVX-512 is {faster(update)} times as fast as AVX2; multiply-adds in registers {faster(peak)}."
    gain = peak.ratio / update.ratio
    return [sentence, PEAK.say(gain, f"{gain:.2f}")]
