"""The second way in: a guest in a kernel that somebody else started."""

from __future__ import annotations

from functools import partial
from typing import Any

from rlm_jupyter.kernel.guest.guest import Guest


def load(shell: Any) -> None:
    """Put a guest into the running ipykernel of `shell`; a second time does nothing.

    Raises
    ------
    RuntimeError
        The shell is no ipykernel: there is no control channel to talk through.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None or getattr(kernel, "control_thread", None) is None:
        raise RuntimeError("rlm_jupyter.kernel.guest needs an ipykernel; a plain IPython has no control channel.")
    if getattr(kernel, "rlm_guest", None) is None:
        kernel.rlm_guest = guest = Guest(kernel)
        kernel.control_thread.io_loop.add_callback(partial(_take_over, kernel, guest))


def _take_over(kernel: Any, guest: Guest) -> None:
    """Look at each control message before ipykernel does (control thread)."""
    stock = kernel.dispatch_control

    def dispatch(frames: Any) -> Any:
        return None if guest.wire.accepts(frames) else stock(frames)

    kernel.control_stream.on_recv(dispatch, copy=False)
