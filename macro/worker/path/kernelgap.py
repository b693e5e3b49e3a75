"""Marks a program's steps for `python -m macro explain SCRIPT`, which puts this folder on the script's path:

    try:
        from kernelgap import step
    except ImportError:
        from contextlib import nullcontext as step

    for batch in batches:
        with step():
            ...

A step is what runs inside; where nobody looks it does nothing. Standard library alone.
"""

begin = end = None  # called at both ends of a step, where somebody looks


class step(object):
    """One step."""

    def __enter__(self):
        if begin is not None:
            begin()
        return self

    def __exit__(self, kind, error, trace):
        if end is not None:
            end()
