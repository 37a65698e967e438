"""A short independent look at a machine: where its weight is, and a bound that holds for certain."""
