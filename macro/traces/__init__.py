"""Readers of other tools' traces, a module for each format."""
