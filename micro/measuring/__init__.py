"""Measurement in the driver's process: workers, rounds until a ratio is known, ceilings."""
