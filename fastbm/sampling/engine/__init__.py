"""Engines: chains of single-unit updates in blocks of lanes, with kernels, orders of units, fields and threads."""
