"""How probes are run, and what they share: facts, processes, clocks, tools."""
