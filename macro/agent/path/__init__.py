"""Folder on the path of a script in the runner: the module whose `step` marks steps, and nothing else."""
