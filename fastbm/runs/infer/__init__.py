"""Runs of estimators, and comparisons of them."""
