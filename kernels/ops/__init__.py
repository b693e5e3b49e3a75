"""Operations: each folder holds a problem, its table of variants and its sources."""
