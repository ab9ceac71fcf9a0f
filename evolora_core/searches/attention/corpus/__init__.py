"""What the host models learn from, and the held-out texts that they are judged by."""
