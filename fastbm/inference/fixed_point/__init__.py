"""Mean field, TAP and belief propagation: fixed points and linear response."""
