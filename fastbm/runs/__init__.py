"""Runs: one loop for all kinds of them, their files, and the verbs that begin, resume and extend them."""
