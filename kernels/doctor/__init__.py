"""The facts that `python -m kernels` prints, a file per kind; a broken installation must not make any raise."""
