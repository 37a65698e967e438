"""Runs that sample."""
