"""The commands of micro: options, a run from plan to answer, its environment, progress."""
