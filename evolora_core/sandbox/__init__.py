"""Where foreign programs run: one child process for each, which reaches nothing but its folder."""
