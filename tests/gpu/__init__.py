"""Rows of a GPU's device, on a real one where there is one; and the visit to one, by `python -m tests.gpu.run`."""
