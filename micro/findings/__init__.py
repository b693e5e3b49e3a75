"""Sentences about a run, by rows of data: comparisons are selected, grouped, reduced and phrased."""
