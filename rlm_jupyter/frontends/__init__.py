"""The ways in: magics, live cells, the RLM kernel, the command line."""
