"""A learned machine held against its data."""
