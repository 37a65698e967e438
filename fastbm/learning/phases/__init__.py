"""The clamped and the free phase: averages given the data, and without them."""
