"""What the store knows of runs, for trackers of experiments."""
