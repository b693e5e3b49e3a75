"""Sentences about a run: comparisons are selected, grouped, reduced and phrased, driven by data."""
