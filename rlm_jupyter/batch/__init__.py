"""One question about each of many items: each is a run, all have one file of results, and one set of limits."""
