"""What a person types and sees: options, a run from plan to answer, the machine it ran on, progress."""
