"""Whether a framework does the work of the network, and which known defect it has."""
