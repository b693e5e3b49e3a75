"""What `python -m kernels` knows: one file is one kind of fact; none may raise, whatever is broken here."""
