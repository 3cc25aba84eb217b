"""One run: its loop, its session, its state."""
