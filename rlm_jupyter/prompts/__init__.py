"""Everything that a model reads."""
