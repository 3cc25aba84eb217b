"""A run again: recorded, resumed, forked, verified."""
