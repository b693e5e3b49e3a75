"""One folder is one operation: its problem, its table of variants, its sources."""
