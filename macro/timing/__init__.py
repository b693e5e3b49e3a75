"""Timing of frameworks in turns: rounds of steps, their notes in the run file, and results."""
