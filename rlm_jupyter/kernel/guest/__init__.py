"""The kernel's half: everything in this package runs inside the kernel that executes the model's code.

It imports the standard library, IPython and ipykernel, and nothing else of ours, so that it also runs in
an environment where only ipykernel is installed. There are two ways in: `python -m
rlm_jupyter.kernel.guest` starts our own kernel application (`app`), and `%load_ext
rlm_jupyter.kernel.guest` brings the same into a kernel that somebody else started (`extension`).
"""

from __future__ import annotations

from typing import Any


def load_ipython_extension(shell: Any) -> None:
    """Make a running ipykernel a guest: what `%load_ext rlm_jupyter.kernel.guest` calls."""
    from rlm_jupyter.kernel.guest.extension import load

    load(shell)
