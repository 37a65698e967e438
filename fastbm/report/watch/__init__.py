"""Runs seen from outside, as they go on."""
