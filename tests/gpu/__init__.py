"""What only a GPU can tell: questions asked of a machine that has one, by `python -m tests.gpu.checklist`."""
