"""A visit to a GPU: what it needs, and its steps, what is worth most first."""
