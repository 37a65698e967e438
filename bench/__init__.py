"""Benchmarks of fastbm and of its peers in the same run.

``pytest bench -n 0 --benchmark-only`` runs them, ``bench/report.py`` makes the table.
"""
