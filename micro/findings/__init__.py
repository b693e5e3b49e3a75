"""What a run says: comparisons are selected, grouped, reduced and phrased, by rows of data."""
