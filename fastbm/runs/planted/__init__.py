"""Runs that compare rules of learning."""
