"""Fidelity: a learned machine compared with its data."""
