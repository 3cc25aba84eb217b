"""Start our kernel application, or a template of such kernels.

`python -m rlm_jupyter.kernel.guest -f CONNECTION_FILE`, or
`python -m rlm_jupyter.kernel.guest --template FD [MODULE…] -- [ARGUMENT…]`.
"""

from __future__ import annotations

import os
import sys

from rlm_jupyter.kernel.guest.confine import SAFE_PATH, confine

forks: int | None = None
if __name__ == "__main__":
    os.environ.pop(SAFE_PATH, None)  # scripts that the kernel starts find what lies beside them
    forks = confine()  # before the first thread, which would keep what it has

# ipykernel imports debugpy when it can (80 ms and 8 MB), and nobody debugs a model's kernel
sys.modules["debugpy"] = None  # type: ignore[assignment]

import ipykernel.debugger  # noqa: F401  the newer ones look for it only when a kernel is made

from rlm_jupyter.kernel.guest.app import GuestKernelApp

del sys.modules["debugpy"]

if __name__ == "__main__":
    if sys.argv[1:2] == ["--template"]:
        import socket

        from rlm_jupyter.kernel.guest.template_process import serve

        at = sys.argv.index("--")
        # returns in its forks
        run, forks = serve(socket.socket(fileno=int(sys.argv[2])), sys.argv[3:at], sys.argv[at + 1 :])
        GuestKernelApp.instance().fork_into(run)
    if forks is not None:
        GuestKernelApp.instance().take_forks(forks)
    GuestKernelApp.launch_instance()
