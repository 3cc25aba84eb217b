"""Memory, disk, processes: what a cell uses up is its own."""

from __future__ import annotations

import os

import pytest

from rlm_jupyter.kernel.sandbox import cgroup as pids
from tests.security.conftest import Machine
from tests.security.host import DISK, PROCESSES

HOG = "try:\n    hog = bytearray(4 * 1024**3)\n    print('GOT')\nexcept MemoryError: print('no room')"
FILL = """
import os
written = 0
for folder in ('/tmp', '/dev/shm', os.path.expanduser('~'), '.', '/', '/dev', '/var', '/run', os.path.dirname(get_ipython().kernel.parent.connection_file)):
    path = os.path.join(folder, 'filler')
    try:
        with open(path, 'wb', buffering=0) as file:
            for _ in range(64): written += file.write(bytes(2**20))
        print('GOT', folder)
    except OSError as error: print('no', folder, error.strerror)
for folder in ('/tmp', '/dev/shm'):
    if os.path.exists(folder + '/filler'): os.unlink(folder + '/filler')
print('written', written)
"""
BOMB = """
import os, signal, time
born = []
try:
    for _ in range(400):
        child = os.fork()
        if child == 0:
            time.sleep(60); os._exit(0)
        born.append(child)
except OSError as error: print('no more:', error)
for child in born: os.kill(child, signal.SIGKILL)
for child in born: os.waitpid(child, 0)
print('born', len(born))
"""


@pytest.mark.parametrize("kind", ["boxed", "contained", "bare"])
def test_memory_is_bounded(kind: str, request: pytest.FixtureRequest) -> None:
    machine: Machine = request.getfixturevalue(kind)
    assert "no room" in machine.attack(HOG)
    assert "[ok]" in machine.attack("1")


@pytest.mark.parametrize("kind", ["boxed", "contained"])
def test_the_disk_cannot_be_filled(kind: str, request: pytest.FixtureRequest) -> None:
    said = request.getfixturevalue(kind).attack(FILL)
    assert "GOT" not in said
    assert int(said.split("written")[1].split()[0]) <= 2 * DISK


@pytest.mark.parametrize("kind", ["boxed", "contained"])
def test_a_fork_bomb_is_bounded(kind: str, request: pytest.FixtureRequest) -> None:
    if kind == "boxed" and os.geteuid() == 0 and not _root_can_be_held():
        pytest.skip("Linux exempts root from the limit, and no cgroup can be made here")
    machine: Machine = request.getfixturevalue(kind)
    said = machine.attack(BOMB)
    assert "no more" in said
    assert int(said.split("born")[1].split()[0]) < PROCESSES
    assert "[ok]" in machine.attack("1")


def _root_can_be_held() -> bool:
    return any(os.access(parent, os.W_OK) for parent in pids._parents())
