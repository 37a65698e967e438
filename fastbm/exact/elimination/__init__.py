"""Sums over one variable after the other."""
