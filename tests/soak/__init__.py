"""Campaigns of hours, run by `make soak`."""
