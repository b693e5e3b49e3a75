"""Frameworks taking turns: rounds of steps, what a file keeps of them, results."""
