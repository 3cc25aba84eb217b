"""What the subcommands of `jupyter rlm` do; the command line itself is `rlm_jupyter.cli`."""
