"""Annealed importance sampling, up and down its path."""
