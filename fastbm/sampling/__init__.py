"""Samplers: chains on every kind of couplings, ladders, clusters and populations of them, and independent draws."""

from .chains import Chains, make_chains, resolve_order

__all__ = ["Chains", "make_chains", "resolve_order"]
