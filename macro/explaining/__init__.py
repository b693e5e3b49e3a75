"""From samples and spans to rows, columns, the gap of two steps, and its sentences."""
