"""Sums over every second layer, the others in closed form."""
