"""Reports on measurements. Reads records; imports none of the other folders."""
