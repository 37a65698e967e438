"""Rules of learning compared on planted machines, whose parameters are known."""
