"""`%rlm` and its kin."""
