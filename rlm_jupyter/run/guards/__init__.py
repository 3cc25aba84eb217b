"""Checks of answers and sub-calls."""
