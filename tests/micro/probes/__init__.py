"""Tests of the probes and of what asks them."""
