"""Compiled kernels: no validation, no input or output, no objects. Everything above this floor is Python."""
