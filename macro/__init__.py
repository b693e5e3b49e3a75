"""Whole networks in real frameworks: equal work first, then time."""
