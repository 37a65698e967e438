"""Chains in blocks: kernels, orders of units, fields, threads."""
