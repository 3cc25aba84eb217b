"""What the host passes to a kernel comes to the request that it is for, whichever thread serves which first."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlm_jupyter.kernel.guest.passed_files import PassedFiles

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are passed on Linux")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, PassedFiles]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    files = PassedFiles(theirs.detach())
    yield ours, files
    ours.close()
    files.channel.close()


def send(ours: socket.socket, number: int, count: int = 1) -> None:
    pairs = [os.pipe() for _ in range(count)]
    for _, writes in pairs:
        os.write(writes, str(number).encode())
    socket.send_fds(ours, [str(number).encode()], [reads for reads, _ in pairs])
    for pair in pairs:
        for end in pair:
            os.close(end)


def content(files: list[int]) -> list[str]:
    found = [os.read(file, 9).decode() for file in files]
    assert not any(os.get_inheritable(file) for file in files)
    for file in files:
        os.close(file)
    return found


def test_each_request_gets_what_is_its_own(ends: tuple[socket.socket, PassedFiles]) -> None:
    ours, files = ends
    for number in (1, 2, 3, 4):
        send(ours, number, count=number)
    before = len(list(Path("/dev/fd").iterdir()))
    assert content(files.take(2)) == ["2", "2"]
    assert files.take(1) == []  # nobody was to ask for these any more
    assert content(files.take(4)) == ["4"] * 4
    assert files.take(3) == []
    assert len(list(Path("/dev/fd").iterdir())) <= before  # others may be closed meanwhile, of tests before


def test_what_comes_later_waits(ends: tuple[socket.socket, PassedFiles]) -> None:
    ours, files = ends
    send(ours, 2)
    files._last, files._waiting = 2, {2: files.take(2)}  # as where its request was served first
    assert files.take(1) == []
    assert content(files.take(2)) == ["2"]


def test_none_come(ends: tuple[socket.socket, PassedFiles]) -> None:
    ours, files = ends
    files.channel.settimeout(0.05)
    with pytest.raises(TimeoutError):
        files.take(1)
    ours.close()
    with pytest.raises(EOFError):
        files.take(1)
