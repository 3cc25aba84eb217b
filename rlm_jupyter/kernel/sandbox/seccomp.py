"""The system calls that no kernel of a model needs, as a filter that bubblewrap, or the guest in a container, installs.

Namespaces leave some doors open: sockets of families that know no network namespace (`AF_VSOCK` reaches the
machine that a virtual one runs on), the keys that Linux keeps for a user, and `io_uring`, which no filter sees.
"""

from __future__ import annotations

import errno
import platform
import struct
from dataclasses import dataclass

_LOAD, _EQUAL, _AT_LEAST, _HAS_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_X32 = 0x40000000
"""From here on, x86-64 counts the calls of another interface, which a filter by number would miss."""
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6 (its own loopback is there), AF_NETLINK (lists interfaces)."""


@dataclass(frozen=True, slots=True)
class _Calls:
    architecture: int
    socket: int
    denied: tuple[int, ...]
    """add_key, request_key, keyctl, bpf, perf_event_open, userfaultfd."""
    clone: int
    namespaces: tuple[int, ...]
    """unshare, setns."""


_URING = (425, 426, 427)
_CLONE3 = 435
"""Its flags are where no filter looks; who gets ENOSYS takes `clone`."""
_NEW_USER = 0x10000000
_MACHINES = {
    "x86_64": _Calls(0xC000003E, 41, (248, 249, 250, 321, 298, 323), 56, (272, 308)),
    "aarch64": _Calls(0xC00000B7, 198, (217, 218, 219, 280, 241, 282), 220, (97, 268)),
}


def program() -> bytes | None:
    """Return the filter for this machine, as bubblewrap takes it; `None` where its calls are not known."""
    calls = _MACHINES.get(platform.machine())
    return None if calls is None else _program(calls)


def in_containers() -> dict[str, bytes]:
    """Return the filters for containers, by the machine, which may be another than this: no user namespaces, either."""
    return {machine: _program(calls, namespaces=False) for machine, calls in _MACHINES.items()}


def _program(calls: _Calls, *, namespaces: bool = True) -> bytes:
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, calls.architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if calls.architecture == _MACHINES["x86_64"].architecture:
        lines += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for number in calls.denied if namespaces else (*calls.denied, *calls.namespaces):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    if not namespaces:
        lines += [(_EQUAL, 0, 4, calls.clone), (_LOAD, 0, 0, _FIRST_ARGUMENT), (_HAS_BIT, 0, 1, _NEW_USER)]
        lines += [(_RETURN, 0, 0, _ERRNO | errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    for number in _URING if namespaces else (*_URING, _CLONE3):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    lines += [(_EQUAL, 1, 0, calls.socket), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    for family in _FAMILIES:
        lines += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    lines.append((_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
