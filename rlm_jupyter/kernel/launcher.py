"""`Launcher`: starts and ends a process of ours, a kernel's or a template's, shut off by bubblewrap or not.

It needs nothing of `jupyter_client`, whose import takes longer than all that is done here: a template starts meanwhile.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.sandbox import bwrap, seccomp
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.types.errors import KernelStartError

_SIGNALLED = 128
"""What bubblewrap adds to the number of the signal that ended its child, for an exit code."""
_PIPE_BYTES = 65_536


class Launcher:
    """Of one process; `shut_off` is called before it is started."""

    process: Any = None
    pid: int | None = None
    pgid: int | None = None
    _sandbox: Sandbox | None = None
    _directory: KernelDirectory
    _is_template = False
    _inside: int | None = None
    """The first process inside the sandbox, as we see it: with it, all of them end."""
    _inside_fd: int | None = None
    _said: int | None = None

    def shut_off(self, sandbox: Sandbox, directory: KernelDirectory, *, template: bool = False) -> None:
        """Set what it is started in, and whether it is no kernel, but what kernels are forked from."""
        self._sandbox, self._directory, self._is_template = sandbox, directory, template

    def start(self, cmd: list[str], **options: Any) -> Any:
        """Start the process, and return it; it ends with the thread that this is called in."""
        boxed = self._sandbox is not None and self._sandbox.kind == "bwrap"
        if boxed:
            return self._start_boxed(cmd, **options)
        closed = [name for name in ("stdout", "stderr") if getattr(sys, f"__{name}__") is None]
        return self._popen(cmd, **options | dict.fromkeys(closed, subprocess.DEVNULL))

    def keep(self, process: Any) -> None:
        """Take a process as the one that this is about."""
        self.process, self.pid = process, process.pid
        self.pgid = os.getpgid(process.pid) if hasattr(os, "getpgid") else None

    def stderr_tail(self) -> str:
        """Return what it said on standard error when it did not come up; empty where that went to ours."""
        if self._said is None:
            return ""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._said, _PIPE_BYTES).decode(errors="replace").strip()
        return ""

    def exit_code(self) -> int | None:
        """Return the exit code, as of `Popen`: negative for a signal."""
        code: int | None = None if self.process is None else self.process.poll()
        if self._inside is not None and code is not None and code > _SIGNALLED:
            return _SIGNALLED - code
        return code

    def end(self) -> None:
        """Kill the process and all that belongs to it."""
        if self._inside_fd is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(self._inside_fd, signal.SIGKILL)
        elif self.process is not None and self.exit_code() is None:
            # the guest's supervisor, which ends all that is below it
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.process.pid, signal.SIGTERM)

    def release(self) -> list[KernelDirectory]:
        """Close what is open here; the process is gone. Return the directories to be removed."""
        for fd in (self._inside_fd, self._said):
            if fd is not None:
                os.close(fd)
        self._inside_fd = self._said = None
        return [self._directory]

    def _popen(
        self, cmd: list[str], *, env: dict[str, str], stdin: int | None = subprocess.DEVNULL, **options: Any
    ) -> Any:
        """Start a process in a session of its own, with our number in its environment: it ends when we do."""
        own = {"JPY_PARENT_PID": str(os.getpid())}
        words = [os.path.expanduser(word) for word in cmd]  # noqa: PTH111  as a kernelspec may name its Python
        return subprocess.Popen(words, env=env | own, stdin=stdin, start_new_session=True, **options)

    def _start_boxed(
        self, cmd: list[str], *, cwd: str | None = None, pass_fds: Sequence[int] = (), **options: Any
    ) -> Any:
        assert self._sandbox is not None
        with ExitStack() as stack:
            told, tells = _pipe(stack)
            said, says = _pipe(stack)
            for end in (said, says):  # who writes more than anybody reads loses it, and does not wait
                os.set_blocking(end.fileno(), False)
            cwd_path = None if cwd is None else Path(cwd)
            # through a pipe: the names of folders need not stand in the list of processes
            words = bwrap.options(self._sandbox, cmd[0], self._directory.path, cwd_path, template=self._is_template)
            filled = [_filled(stack, b"".join(word.encode() + b"\0" for word in words))]
            command = [bwrap.program(), "--args", str(filled[0]), "--info-fd", str(tells.fileno())]
            if (rules := seccomp.program()) is not None:
                filled.append(_filled(stack, rules))
                command += ["--seccomp", str(filled[1])]
            passed = [tells.fileno(), *filled, *pass_fds]
            null = subprocess.DEVNULL  # not ours: what stands there could be opened anew, and read
            process = self._popen(
                [*command, "--", *cmd],
                cwd="/",
                stdin=null,  # a pipe would be one for all kernels of a template, and could be written to
                stdout=null,
                stderr=says.fileno(),
                pass_fds=passed,
                **options,
            )
            tells.close()
            about = told.read()
            try:
                self._inside = int(json.loads(about)["child-pid"])
                self._inside_fd = os.pidfd_open(self._inside)
            except (ValueError, KeyError, OSError):
                self._inside = None
                process.kill()
                process.wait()
                why = (said.read() or b"no reason given").decode(errors="replace").strip()
                raise KernelStartError(
                    f"The sandbox could not be set up: {why}. sandbox='none' does without."
                ) from None
            self._said = os.dup(said.fileno())
        return process


def fill_closed_streams() -> None:
    """Open nothing where this process has closed its standard streams, so that no descriptor of ours takes one's place.

    One that is passed on to a kernel would be that kernel's output.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _pipe(stack: ExitStack) -> tuple[io.FileIO, io.FileIO]:
    reads, writes = os.pipe()
    return stack.enter_context(io.FileIO(reads, "r")), stack.enter_context(io.FileIO(writes, "w"))


def _filled(stack: ExitStack, data: bytes) -> int:
    """Return the end of a file in memory from which this is read."""
    file = stack.enter_context(io.FileIO(os.memfd_create("rlm"), "w+"))
    file.write(data)
    file.seek(0)
    return file.fileno()


def by_a_thread_of_its_own(start: Callable[[], Any], keep: Callable[[Any], None]) -> concurrent.futures.Future[None]:
    """Start a process in a thread that lives as long as it does.

    A kernel that asks to be told when its parent dies (`guest/supervisor_process.py`) means, to Linux, the thread that
    started it; that of an event loop may end long before its process does.

    Parameters
    ----------
    start
        Starts it.
    keep
        Told the process, before the future is done: else nobody would end it.

    Returns
    -------
    Future
        Done when the process is there, or could not be started; it can't be cancelled.
    """
    started: concurrent.futures.Future[None] = concurrent.futures.Future()
    started.set_running_or_notify_cancel()
    if sys.platform != "linux":
        keep(start())
        started.set_result(None)
        return started

    def live() -> None:
        try:
            process = start()
            keep(process)
        except BaseException as error:  # noqa: BLE001  raised where it is waited for
            started.set_exception(error)
            return
        started.set_result(None)
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)

    threading.Thread(target=live, name="rlm_jupyter kernel", daemon=True).start()
    return started
