"""What commands that time frameworks have in common."""
