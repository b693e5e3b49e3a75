"""The facts that `python -m kernels` prints: a file for each kind; none may raise, whatever is broken here."""
