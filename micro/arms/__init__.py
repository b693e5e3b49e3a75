"""The two sides of `micro.ab`: a server in each checkout, its client, the pairs, their verdicts."""
