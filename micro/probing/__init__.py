"""What asks the probes, and what they share: facts, processes, clocks, tools."""
