"""What the finished run of micro/gemm.py --batches says."""

from __future__ import annotations

from micro.answers.band import grouped, interval
from reports.record import Run


def answer(run: Run) -> list[str]:
    """A sentence a library: the same samples in smaller batches, times what they take at once."""
    sentences = []
    for group in grouped(run, "batches/"):
        whole = group[0].baseline.problem
        told = ", ".join(f"{x.contender.problem.m} {interval(x.comparison)}" for x in group)
        sentences.append(
            f"{whole.m} samples through {whole.k} → {whole.n} by {group[0].baseline.variant}, in batches of so many, "
            f"times what they take at once: {told}."
        )
    return sentences
