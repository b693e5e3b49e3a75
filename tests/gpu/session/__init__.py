"""A session of minutes on a GPU: what it needs, and its steps, the most valuable first."""
