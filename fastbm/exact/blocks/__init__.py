"""Sums with the units in three blocks."""
