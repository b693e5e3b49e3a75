"""What the runner puts on a script's path: nothing but the module whose `step` marks steps."""
