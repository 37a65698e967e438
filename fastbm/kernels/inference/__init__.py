"""Kernels of estimators."""
