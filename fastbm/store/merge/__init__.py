"""The parts of a finished run made one file, without copies."""
