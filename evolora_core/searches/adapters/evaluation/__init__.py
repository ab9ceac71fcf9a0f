"""What a condition answers to the holdouts, under every router."""
