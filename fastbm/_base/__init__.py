"""What everything stands on: checks with their texts, errors, arrays, threads, stops, random numbers."""
