"""The protocol loop of a framework's process, run by path in an environment of its own."""
