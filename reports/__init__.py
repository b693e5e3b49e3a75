"""Reports on measurements. Imports none of the other folders."""
