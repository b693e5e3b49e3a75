"""Constants of sampling a case, shared by plans, workers and answers."""

VISIT = 60e-6  # seconds of launches in a sample
# Seconds of a sample where workers take turns, so that the hand-over does not show; and of one on a GPU, whose
# events are half a microsecond apart at best.
ACROSS = 1e-3
LONG = 50e-3  # seconds: longer calls are not warmed up, and no cache holds their operands
WARM = 2  # calls; with one, operands between L2 and L3 read 11 % slow
PREPARE = 120.0  # seconds that a case may take to be prepared: compilers and imports
