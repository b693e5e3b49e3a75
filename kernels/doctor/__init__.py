"""The facts that `python -m kernels` prints, a file per kind; a broken installation raises nothing."""
