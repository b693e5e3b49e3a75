"""Steps under a tracer and perf, and the products that libraries log."""
