"""The process that kernels are forked from, where it can fork none."""

from __future__ import annotations

import errno
import os
import socket
import sys

import pytest

from rlm_jupyter.kernel.guest import namespaces, template_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux")


@pytest.mark.parametrize("disk", [None, 1_000_000], ids=["none", "bwrap"])
def test_a_template_that_can_fork_nothing_says_so_and_goes_on(
    disk: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
        assert ours.recv(1) == b""  # whoever waits for a kernel is told: nobody else has that end
    assert os.strerror(errno.EAGAIN) in capsys.readouterr().err


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
