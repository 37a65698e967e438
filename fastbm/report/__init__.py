"""What is shown of runs: tables, pictures, and a view of runs as they go on."""
