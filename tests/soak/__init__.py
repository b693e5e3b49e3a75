"""Campaigns of hours: `python -m tests.soak` measures what is promised; tests.soak.mutants judges the tests."""
