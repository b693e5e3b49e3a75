"""One question a file: QUESTION, LIMIT in seconds, and `ask()`, which returns facts and prints nothing."""
