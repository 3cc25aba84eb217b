"""Contexts from files."""
