"""Files that every framework's process loads; for Python 3.6, with standard library and NumPy only."""
