"""Exact sums as a method of inference."""
