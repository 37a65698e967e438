"""Machines from data: what moves parameters, what is measured along the way, and what is said of the result."""
