"""Explanations of steps: from samples and spans to rows, columns, the gap of two steps, and sentences."""
