"""Runs that TOML files describe."""
