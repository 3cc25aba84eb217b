"""The cells that the extractive model writes: what follows `# %%` in each file is sent to the kernel.

What stands before that line tells a type checker, and a reader, what a cell takes from the kernel and from
the cells before it.
"""
