"""Steps watched by a tracer and by perf, and the GEMMs and convolutions that libraries log."""
