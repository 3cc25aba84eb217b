"""The kernel's half: everything in this package runs inside the kernel that executes the model's code.

It imports the standard library, IPython and ipykernel, and nothing else of ours, so that it also runs in
an environment where only ipykernel is installed. `python -m rlm_jupyter.kernel.guest` starts it.
"""
