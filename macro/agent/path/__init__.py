"""Folder on a watched script's path that contains only the module kernelgap, whose `step` marks steps."""
