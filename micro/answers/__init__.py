"""The sentences that answer a benchmark's question, from its run."""
