"""Kernels of learning."""
