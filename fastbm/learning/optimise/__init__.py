"""Steps, line searches and the coordinates in which they are taken."""
