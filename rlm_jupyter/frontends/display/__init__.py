"""A run as HTML and as text."""
