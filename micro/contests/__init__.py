"""Contests of the benchmarks whose questions need many."""
