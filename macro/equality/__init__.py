"""Whether a framework does the work it is asked for, and which known defect it has."""
