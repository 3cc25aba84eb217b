"""The third way in: a guest in a stock ipykernel on a Jupyter server, which was sent there as source.

The kernel is ours, started for one run; so it becomes what `app.py` makes from the start, as far as a kernel that
lives already can.
"""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from typing import Any

from ipykernel.ipkernel import IPythonKernel

from rlm_jupyter.kernel.guest.guest_kernel import GuestKernel
from rlm_jupyter.kernel.guest.linked_wire import LinkedWire
from rlm_jupyter.kernel.guest.stream_limits import BoundedStream


def come_in(kernel: Any) -> None:
    """Make a stock kernel one of ours; a second time does nothing.

    Raises
    ------
    RuntimeError
        It can't be; the text says why.
    """
    if isinstance(kernel, GuestKernel):
        return
    stock = type(kernel)
    if not issubclass(stock, IPythonKernel) or any(
        getattr(kernel, name, None) is None for name in ("control_stream", "control_thread", "iopub_thread")
    ):
        raise RuntimeError("it needs ipykernel 6.29 or newer")
    if kernel.session.signature_scheme != "hmac-sha256":
        raise RuntimeError(f"it signs its messages by {kernel.session.signature_scheme}")
    if getattr(kernel.parent, "curve_secretkey", None) is not None:
        raise RuntimeError("its channels are encrypted")
    _have_own_files()
    for stream in (sys.stdout, sys.stderr):
        BoundedStream.adopt(stream)
    kernel.shell.history_manager.enabled = False
    metaclass: Any = type(GuestKernel)
    kernel.__class__ = metaclass("RemoteGuestKernel", (GuestKernel, stock), {})
    kernel.move_in(LinkedWire)


def _have_own_files() -> None:
    """Keep temporary files in a folder of this kernel's, which goes as it ends."""
    tempfile.tempdir = tempfile.mkdtemp(prefix="rlm-")
    atexit.register(shutil.rmtree, tempfile.tempdir, ignore_errors=True)
