"""The kernel's half: this package runs inside the kernel that executes the model's code.

It imports the standard library, IPython, ipykernel and of ours only `types`, so that it also runs in an environment
where only ipykernel is installed. `python -m rlm_jupyter.kernel.guest` starts it. The host uses its `codec` and `wire`.
"""
