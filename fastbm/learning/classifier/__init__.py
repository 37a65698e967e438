"""Classification by one machine for each class."""
