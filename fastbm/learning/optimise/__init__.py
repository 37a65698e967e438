"""Optimisers: steps, line searches and the coordinates in which they are taken."""
