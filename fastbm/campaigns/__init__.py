"""Many runs as one: what they are made of, and what is read from them."""
