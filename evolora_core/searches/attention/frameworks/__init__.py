"""The three frameworks: what a program of each may change, and the text around it that stays."""
