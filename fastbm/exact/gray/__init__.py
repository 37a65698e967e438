"""Sums along a Gray code, one flip a step."""
