"""How the fork of a template becomes a kernel: it has nothing in common with the next one but what is imported."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # as in `supervisor_process`
import contextlib
import os
import random
import socket
import sys
import tempfile
from typing import Any

from rlm_jupyter.kernel.guest import confine, namespaces
from rlm_jupyter.kernel.guest.supervisor_process import Host, supervise


def become_kernel(asked: dict[str, Any], fds: list[int]) -> tuple[int, int]:
    """Return in the process of the kernel, ready for its application; those above it never return.

    Parameters
    ----------
    asked
        `environment`, `cwd`, `memory`, `processes` as of a kernel that is started; `disk`: bytes of its private
        folders, where it is shut off, else null.
    fds
        The host's channel, the folder of the connection, a pidfd of the host, and where forks of the kernel itself
        are asked for.

    Returns
    -------
    tuple
        The descriptors of the folder of the connection, and of the last.
    """
    _signal.set_wakeup_fd(-1)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    channel, run, host, forks = fds
    close_all_but(fds)
    os.setsid()
    boxed = asked["disk"] is not None
    if boxed:
        namespaces.enter(asked["disk"])
        confine.give_up_the_rest()
    confine.limit(asked["memory"], asked["processes"])
    supervise(None, Host(socket.socket(fileno=channel), host))
    os.close(host)
    parent = os.environ["JPY_PARENT_PID"]
    os.environ.clear()
    os.environ.update(asked["environment"] | {"JPY_PARENT_PID": parent})
    os.chdir(asked["cwd"])
    _renew()
    return run, forks


def close_all_but(kept: list[int]) -> None:
    """Close what was the template's, such as its channel and its pipe; standard streams stay."""
    kept = sorted({0, 1, 2, *kept})
    for below, above in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(below + 1, above)


def _renew() -> None:
    """Let two forks differ where two processes do: random numbers, temporary names, keys of multiprocessing."""
    random.seed()
    if (numpy := sys.modules.get("numpy.random")) is not None:
        numpy.seed()
    tempfile.tempdir = None
    tempfile._name_sequence = None  # type: ignore[attr-defined]
    if (synchronize := sys.modules.get("multiprocessing.synchronize")) is not None:
        synchronize.SemLock._rand = tempfile._RandomNameSequence()  # type: ignore[attr-defined]
    if (processes := sys.modules.get("multiprocessing.process")) is not None:
        processes.current_process().authkey = os.urandom(32)
    if (torch := sys.modules.get("torch")) is not None:
        with contextlib.suppress(AttributeError):
            torch.seed()
