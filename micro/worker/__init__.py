"""The process that holds the operands: it prepares kernels, checks them, and times samples."""
