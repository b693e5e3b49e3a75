"""Traces of other tools' formats, a file a format."""
