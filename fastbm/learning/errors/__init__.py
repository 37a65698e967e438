"""Standard errors of learned couplings."""
