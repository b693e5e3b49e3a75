"""Answer of micro/gemm.py --batches."""

from __future__ import annotations

from micro.findings.phrase import Phrase

answer = Phrase(
    "batches/",
    "{p.m} samples through {p.k} → {p.n} by {a.variant}, in batches of so many, times what they take at once: {items}.",
    "{q.m} {ratio}",
)
