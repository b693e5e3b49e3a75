"""Checks that a framework computes what the network defines, and names for known defects."""
