"""Vendor libraries, one a file, opened on first use."""
