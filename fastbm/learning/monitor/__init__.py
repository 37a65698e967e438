"""Monitors of learning: what is measured on the way, and when to stop."""
