"""One machine a class."""
