"""Code shared by the commands that time frameworks."""
