"""Programs as text: the block that evolves, the check of the syntax, equal programs, and why one was refused."""
