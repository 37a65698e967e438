"""A short independent estimate on a machine: where its weight is, and a lower bound on log Z."""
