"""Vendor libraries and Python bindings, one file each, opened on first use."""
