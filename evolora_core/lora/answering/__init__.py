"""Asking, answering, grading and pricing: what one answer is, and what it costs."""
