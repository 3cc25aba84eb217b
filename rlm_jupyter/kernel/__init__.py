"""A running IPython kernel, and what runs inside it."""
