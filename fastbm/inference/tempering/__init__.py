"""Parallel tempering as an estimator."""
