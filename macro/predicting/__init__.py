"""Predictions of changes to a step from isolated kernels, timing in turns, and the comparison of both."""
