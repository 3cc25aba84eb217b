"""An evaluation that a prompt can't be tuned to: `python -m tests.benchmarks.questions`."""
