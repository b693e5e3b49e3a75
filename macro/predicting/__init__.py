"""Predictions of changes from kernels measured alone, trials in turns, and the comparison of both."""
