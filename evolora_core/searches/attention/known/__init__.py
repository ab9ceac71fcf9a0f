"""Mechanisms that people already know, as programs, and two that must lose."""
