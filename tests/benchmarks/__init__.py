"""What this project costs, beside the reference implementation and the floors: `python -m tests.benchmarks`."""
