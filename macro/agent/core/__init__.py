"""The files that every framework's process loads: for Python 3.6, in the standard library and NumPy."""
