"""Python environments of frameworks, and the processes that run their jobs."""
