"""Rules of learning held against machines that are known."""
