"""A run on disk: journal, trajectory, notebook, store."""
