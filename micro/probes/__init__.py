"""One question a file: QUESTION, LIMIT in seconds, the PART of a visit that asks it, its RANK in there, and `ask()`,
which returns facts and prints nothing."""
