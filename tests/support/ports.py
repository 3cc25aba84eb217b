"""The ports of servers in other processes: one that is chosen for a server may be another's before it has it."""

from __future__ import annotations

import contextlib
import subprocess
import time

import psutil


def port_of(process: subprocess.Popen[bytes], seconds: float = 60.0) -> int | None:
    """Wait until a process listens on a port of 127.0.0.1, and return that; `None`: it has ended."""
    until = time.monotonic() + seconds
    found = psutil.Process(process.pid)
    look = getattr(found, "net_connections", None) or found.connections  # as psutil 5 calls it
    while process.poll() is None:
        with contextlib.suppress(psutil.Error):  # it ends as it is looked at
            for each in look():
                if each.status == psutil.CONN_LISTEN and each.laddr.ip == "127.0.0.1":
                    return int(each.laddr.port)
        assert time.monotonic() < until, "it listens nowhere"
        time.sleep(0.1)
    return None
