"""Watching a run where it was started: a fold of its events (`cells`, `facts`), told to a page (`comm`) and shown."""
