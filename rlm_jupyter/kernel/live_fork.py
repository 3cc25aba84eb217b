"""`fork_live`: a second process with everything that a kernel has, as the host asks for it.

The kernel has run a model's code and is not trusted. It is given sockets that listen already, of which no path leads
anywhere; that what answers is a fork of that very kernel is told by the system, not by itself.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlm_jupyter.kernel.start_channels import readable
from rlm_jupyter.kernel.supervised_process import SupervisedProcess
from rlm_jupyter.types.errors import ForkRefusedError, KernelDiedError, KernelError
from rlm_jupyter.types.shortened import shortened

_SECONDS = 60.0
"""How long a fork may take, on a machine that is short of memory."""
_BACKLOG = 16
_MOST_BYTES = 64
_CREDENTIALS = "3i"
_WHY_CHARS = 300
"""Of what the kernel says."""
Ask = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""Puts a request to a kernel, and returns the content of its answer."""


async def fork_live(
    parent: SupervisedProcess, ask: Callable[[int], Awaitable[dict[str, Any]]], paths: Sequence[str]
) -> SupervisedProcess:
    """Have a kernel forked.

    Parameters
    ----------
    parent
        The kernel's process.
    ask
        Puts the request for it to the kernel, with the number of what was passed for it.
    paths
        Where the sockets of the fork are: shell, control, iopub.

    Raises
    ------
    ForkRefusedError
        There is none; the text says why.
    """
    with ExitStack() as theirs, ExitStack() as ours:
        sockets = [_listening(theirs, path) for path in paths]
        forks, their_forks = map(theirs.enter_context, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        life, alive = os.pipe()
        theirs.callback(os.close, life)
        ours.callback(os.close, alive)  # the fork ends with it
        forks = forks.dup()
        ours.callback(forks.close)
        forks.setblocking(False)
        forks.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        try:
            async with asyncio.timeout(_SECONDS):
                fds = [*(each.fileno() for each in sockets), their_forks.fileno(), life]
                answer = await ask(parent.pass_files(fds))
                if answer.get("refused"):
                    raise ForkRefusedError(_in_a_line(str(answer["refused"])))
                theirs.close()
                await readable(forks)
            process = _told(forks, parent.kernel_pid)
            pidfd = os.pidfd_open(process)
            ours.callback(os.close, pidfd)
            if _parent_of(process) != parent.kernel_pid:
                raise ForkRefusedError("what answers is none")
            number = await parent.supervisor.keep(pidfd)
        except (ForkRefusedError, KernelDiedError):
            raise
        except (OSError, TimeoutError, LookupError, KernelError) as error:
            raise ForkRefusedError(_in_a_line(f"that failed ({type(error).__name__}: {error})")) from error
        forks.shutdown(socket.SHUT_RD)
        ours.pop_all()
        return SupervisedProcess(parent.supervisor, number, pidfd, forks, alive)


def _in_a_line(why: str) -> str:
    return shortened(" ".join(why.split()), _WHY_CHARS)


def _listening(stack: ExitStack, path: str) -> socket.socket:
    made = stack.enter_context(socket.socket(socket.AF_UNIX))
    made.bind(path)
    made.listen(_BACKLOG)
    return made


def _told(forks: socket.socket, parent: int) -> int:
    """Return the process that has sent the message, as the system tells it."""
    message, ancillary, _, _ = forks.recvmsg(_MOST_BYTES, socket.CMSG_SPACE(struct.calcsize(_CREDENTIALS)))
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and message == b"forked":
            process = int(struct.unpack(_CREDENTIALS, data)[0])
            if process not in {0, parent}:
                return process
    raise ForkRefusedError("it ended as it was made")


def _parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
