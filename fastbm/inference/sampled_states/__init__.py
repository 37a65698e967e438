"""Sums over the states that sequential dynamics finds."""
