"""What the merge search has in its packs, beside what every pack has: `sections.SECTIONS`."""
