"""The first thing that a kernel of ours does: give up what the code that it will run could use against others.

Everything here can be tightened and never be loosened again, so no cell can undo it. The host says what by a
variable of the environment, because it comes before all else.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
from typing import Any

from rlm_jupyter.kernel.guest.supervisor import supervise

VARIABLE = "RLM_CONFINED"
"""JSON: `parent`, the process id of the host, or 0 where it can't be seen; `memory`, `processes`: numbers, or null."""
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_CAPABILITY_VERSION = 0x20080522
_GIVEN_UP = (16, 17, 19, 21, 22, 24, 38, 39, 40)
"""Of root's: SYS_MODULE, SYS_RAWIO, SYS_PTRACE (reads any process), SYS_ADMIN, SYS_BOOT, SYS_RESOURCE (raises any
limit), PERFMON, BPF, CHECKPOINT_RESTORE."""


def confine() -> None:
    """Do what the host asked for, as far as this system can; without a sandbox, what returns is a process below."""
    asked = json.loads(os.environ.pop(VARIABLE, "{}"))
    if not asked or sys.platform == "win32":
        return
    _limit(asked)
    if sys.platform == "linux":
        import ctypes

        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        if os.geteuid() == 0:
            _give_up(libc, ctypes)
    if asked["parent"]:
        supervise(asked["parent"])


def _limit(asked: dict[str, Any]) -> None:
    import resource

    limits = {resource.RLIMIT_CORE: 0}
    if asked["memory"] is not None:
        limits[resource.RLIMIT_DATA] = asked["memory"]
    if asked["processes"] is not None and _counts_by_namespace():
        limits[resource.RLIMIT_NPROC] = asked["processes"]
    for limit, most in limits.items():
        hard = resource.getrlimit(limit)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))


def _counts_by_namespace() -> bool:
    """Whether Linux counts processes for each user namespace; before 5.14, all of the user's count."""
    major, minor = (int("0" + "".join(filter(str.isdigit, part))) for part in platform.release().split(".")[:2])
    return (major, minor) >= (5, 14)


def _give_up(libc: Any, ctypes: Any) -> None:
    """Root's right to look into other processes and to change the machine; its files stay its own."""
    for capability in _GIVEN_UP:
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    if libc.capget(header, data) == 0:
        for capability in _GIVEN_UP:
            for kind in range(3):
                data[3 * (capability // 32) + kind] &= ~(1 << capability % 32) & 0xFFFFFFFF
        libc.capset(header, data)
