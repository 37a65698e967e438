"""Samplers: chains of single-spin updates on every kind of couplings, and the task that records them."""

from .chains import Chains, make_chains, resolve_order

__all__ = ["Chains", "make_chains", "resolve_order"]
