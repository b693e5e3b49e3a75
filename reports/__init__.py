"""What is said about measurements. Reads records; imports none of the other folders."""
