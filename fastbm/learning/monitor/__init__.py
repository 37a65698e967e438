"""What is measured while a machine learns, and when it should stop."""
