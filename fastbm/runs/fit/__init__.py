"""Runs that learn."""
