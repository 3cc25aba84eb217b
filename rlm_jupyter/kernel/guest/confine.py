"""The first thing that a kernel of ours does: give up what the code that it will run could use against others.

Everything here can be tightened and never be loosened again, so no cell can undo it. The host says what by a
variable of the environment, because it comes before all else.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import socket
import sys
from collections.abc import Iterable

from rlm_jupyter.kernel.guest import namespaces
from rlm_jupyter.kernel.guest.libc import LIBC
from rlm_jupyter.kernel.guest.supervisor_process import Host, end_with, supervise

VARIABLE = "RLM_CONFINED"
"""JSON: `parent`, the process id of the host, or 0 where it can't be seen; `memory`, `processes`: numbers, or null;
`template`, whether this is to be no kernel, but what kernels are forked from; `path`: folders of modules, for that, and
`cwd`, where it is to work.
`channel` and `forks`, where there are any: descriptors, of the supervisor's channel to the host, and where forks of the
kernel are asked for."""
SAFE_PATH = "PYTHONSAFEPATH"
"""Python's own: the working folder is no place of modules to start with. A `queue` there would be taken for the
standard one, and no kernel come up. The application looks there after the standard ones."""
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL = 38, 24, 47, 4
_CAPABILITY_VERSION = 0x20080522
_GIVEN_UP = (16, 17, 19, 21, 22, 24, 38, 39, 40)
"""Of root's: SYS_MODULE, SYS_RAWIO, SYS_PTRACE (reads any process), SYS_ADMIN, SYS_BOOT, SYS_RESOURCE (raises any
limit), PERFMON, BPF, CHECKPOINT_RESTORE."""
_OF_A_TEMPLATE = {8, 12, 21}
"""SETPCAP, NET_ADMIN, SYS_ADMIN: what it takes to make namespaces, and to give these up."""
_CAPABILITIES = 41
"""How many Linux knows."""


def confine() -> int | None:
    """Do what the host asked for, as far as this system can; where it is a kernel's, what returns is a process below.

    Returns
    -------
    int or None
        The descriptor where forks of the kernel are asked for, where there is one.
    """
    asked = json.loads(os.environ.pop(VARIABLE, "{}"))
    if not asked or sys.platform == "win32":
        return None
    if asked["template"]:
        # its forks get limits of their own
        if asked["parent"]:
            _gain_nothing(_GIVEN_UP if os.geteuid() == 0 else ())
            end_with(asked["parent"])
        else:
            namespaces.prepare()
            _gain_nothing(set(range(_CAPABILITIES)) - _OF_A_TEMPLATE)
            # not before: code may have been put there by a run that may change these folders
            sys.path[1:1] = asked["path"]
            os.chdir(asked["cwd"])
        return None
    limit(asked["memory"], asked["processes"])
    _gain_nothing(_GIVEN_UP if os.geteuid() == 0 else ())
    channel = asked.get("channel")
    host = None if channel is None else Host(socket.socket(fileno=channel))
    if host is not None and not hasattr(os, "pidfd_open"):  # this Python is older than the host's
        host.channel.close()
        host = None
    if asked["parent"] or host is not None:
        supervise(asked["parent"] or None, host)
    forks: int | None = asked.get("forks")
    return forks


def give_up_the_rest() -> None:
    """Give up, in the fork of a template, what that had kept: no right is left that a plain user has not."""
    _gain_nothing(_OF_A_TEMPLATE)


def _gain_nothing(given_up: Iterable[int]) -> None:
    """Never get a right by starting a program; give these capabilities up."""
    if LIBC is not None:
        LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if given_up:
            _give_up(given_up)


def limit(memory: int | None, processes: int | None) -> None:
    """Bound what this process and those below may use.

    Parameters
    ----------
    memory
        Bytes of data of each process; `None`: as many as there are.
    processes
        How many may run in this user namespace; `None`: as many as there are.
    """
    import resource

    limits = {resource.RLIMIT_CORE: 0}
    if memory is not None:
        limits[resource.RLIMIT_DATA] = memory
    if processes is not None and _counts_by_namespace():
        limits[resource.RLIMIT_NPROC] = processes
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (most, most))


def _counts_by_namespace() -> bool:
    """Return whether Linux counts processes for each user namespace; before 5.14, all of the user's count."""
    major, minor = (int("0" + "".join(filter(str.isdigit, part))) for part in platform.release().split(".")[:2])
    return (major, minor) >= (5, 14)


def _give_up(given_up: Iterable[int]) -> None:
    """Give up, for root, the rights to look into other processes and to change the machine; its files stay its own."""
    for capability in given_up:
        LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    if LIBC.capget(header, data) == 0:
        for capability in given_up:
            for kind in range(3):
                data[3 * (capability // 32) + kind] &= ~(1 << capability % 32) & 0xFFFFFFFF
        LIBC.capset(header, data)
