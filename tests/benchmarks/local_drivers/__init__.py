"""One file for each system that is compared: each is run in a process and an environment of its own."""
