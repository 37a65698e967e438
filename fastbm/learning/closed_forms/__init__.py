"""Closed forms, which turn moments into couplings in one step."""
