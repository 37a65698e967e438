"""Learning of machines from data: learners that move parameters, monitors of their progress, and verdicts."""
