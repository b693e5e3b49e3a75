"""One file is one vendor library, opened on first use."""
