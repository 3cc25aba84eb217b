"""What a tree of runs may use: the ledger, requests, rate limits."""
