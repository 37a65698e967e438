"""Learners, which move the parameters epoch by epoch."""
