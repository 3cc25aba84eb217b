"""The process that kernels are forked from, where it can fork none."""

from __future__ import annotations

import errno
import json
import os
import platform
import socket
import sys
import threading

import pytest

from rlm_jupyter.kernel.forked_kernel import ForkedKernel, TemplateError
from rlm_jupyter.kernel.guest import namespaces, template_process
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX
from rlm_jupyter.kernel.template import Template
from rlm_jupyter.kernel.templates import Templates
from tests.unit.kernel.conftest import Answerer

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux")


@pytest.mark.parametrize("disk", [None, 1_000_000], ids=["none", "bwrap"])
def test_a_template_that_can_fork_nothing_says_so_and_goes_on(
    disk: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", full)
    monkeypatch.setattr(namespaces, "fork", full)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = socket.socket()
    with ours, channel:
        fds = [theirs.detach()]
        assert template_process._fork(channel, {"disk": disk, "idle": 0}, fds, "python") is None
        said = json.loads(ours.recv(1_000))
        assert ours.recv(1) == b""  # nobody else has that end
    assert os.strerror(errno.EAGAIN) in said["failed"]
    assert said["passes"]


def test_a_process_is_the_first_of_its_own_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system call is not known, in two steps."""
    for clones in (namespaces._CLONES, {}):
        monkeypatch.setattr(namespaces, "_CLONES", clones)
        told, tells = os.pipe()
        try:
            child = namespaces.fork()
        except PermissionError:
            pytest.skip("this user may make no namespaces")
        if not child:
            os.write(tells, str(os.getpid()).encode())
            os._exit(0)
        os.close(tells)
        assert os.read(told, 10) == b"1"
        os.waitpid(child, 0)
        os.close(told)


def test_beside_a_thread_the_c_library_is_told_of_the_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library may have one that holds a lock: it prepares for `fork`, and for nothing else."""

    class Counting:
        calls = 0

        def syscall(self, *args: object) -> int:
            self.calls += 1
            return 7

    counting, ends = Counting(), threading.Event()
    monkeypatch.setattr(namespaces, "HELD", counting)
    monkeypatch.setattr(namespaces, "_CLONES", {platform.machine(): 56})
    monkeypatch.setattr(os, "fork", lambda: 8)
    thread = threading.Thread(target=ends.wait)
    thread.start()
    try:
        assert namespaces.fork() == 8
    finally:
        ends.set()
        thread.join()
    assert counting.calls == 0


def test_a_fork_that_gets_no_namespaces_ends_and_is_no_second_template(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def unshare(self, flags: int) -> int:
            return -1

    monkeypatch.setattr(namespaces, "_CLONES", {})
    monkeypatch.setattr(namespaces, "LIBC", Refusing())
    own = os.getpid()
    try:
        child = namespaces.fork()
    finally:
        if os.getpid() != own:
            os._exit(0)  # it has gone on
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


@pytest.mark.usefixtures("pool")
async def test_a_template_without_room_is_kept_with_its_kernels_and_the_next_is_started_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    templates = Templates()
    first = await Kernel.start(Answerer(), sandbox=NO_SANDBOX, templates=templates)
    fork = Template.fork

    async def full(template: Template, idle_seconds: int = 0) -> ForkedKernel:
        raise TemplateError("BlockingIOError", passes=True)

    with monkeypatch.context() as patched:
        patched.setattr(Template, "fork", full)
        anew = await Kernel.start(Answerer(), sandbox=NO_SANDBOX, templates=templates)
    forked = await Kernel.start(Answerer(), sandbox=NO_SANDBOX, templates=templates)
    assert [one.is_forked for one in (first, anew, forked)] == [True, False, True]
    assert templates.problem is None
    assert fork is Template.fork
    for one in (first, anew, forked):
        assert (await one.execute("1")).status == "ok"
        await one.close()
    await templates.close()
