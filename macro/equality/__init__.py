"""Checks that a framework does the network's work, and names of known defects."""
