"""Watching a run where it was started: a fold of its events (`view`), drawn (`fragments`) and shown (`progress`)."""
