"""The vocabulary: errors, events, limits, values, tokens."""
