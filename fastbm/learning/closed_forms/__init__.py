"""Formulas that turn moments into couplings."""
