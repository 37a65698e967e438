"""The clamped and the free phase of learning: averages given the data, and without them."""
