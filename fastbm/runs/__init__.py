"""What is kept: one loop for all kinds of runs, their files, and the verbs that begin and go on with them."""
