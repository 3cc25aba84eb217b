"""A machine to attack: a host and a shell that hold a key, a home full of credentials, services that listen."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.sandboxes import CLIENTS, need_bwrap, need_container
from tests.unit.kernel.conftest import answerer, kernel

__all__ = ["answerer", "kernel"]  # fixtures

KEY = "sk-planted-0123456789"
_FILES = (".netrc", ".aws/credentials", ".config/openai/auth.json", ".ssh/id_ed25519", "notes.txt")


class Machine:
    """A host under attack; `attack` runs a cell in its kernel."""

    def __init__(self, kind: str, stack: ExitStack) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="atk-", dir="/tmp"))
        stack.callback(shutil.rmtree, self.folder)
        self.home, self.outside = self.folder / "home", self.folder / "outside"
        for name in _FILES:
            (self.home / name).parent.mkdir(parents=True, exist_ok=True)
            (self.home / name).write_text(f"token {KEY}")
        self.outside.mkdir()
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unix = stack.enter_context(socket.socket(socket.AF_UNIX))
        unix.bind(str(self.home / "service.sock"))
        unix.listen()
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        abstract.bind(f"\0rlm-attack-{os.getpid()}-{kind}")
        abstract.listen()
        inherited = {"PATH", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH", *CLIENTS}
        environment = {name: value for name, value in os.environ.items() if name in inherited}
        environment |= {"OPENAI_API_KEY": KEY, "HOME": str(self.home), "TMPDIR": str(self.folder)}
        # a shell that exported the key, and waits
        command = f'"{sys.executable}" -m tests.security.host {kind}; true'
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
            cwd=Path(__file__).parents[2],
        )
        stack.callback(self._end)
        assert self._answer() == "ready"
        shell = self._shell.pid
        self.names = {
            "home": self.home,
            "outside": self.outside,
            "tmp": self.folder,
            "port": tcp.getsockname()[1],
            "abstract": f"rlm-attack-{os.getpid()}-{kind}",
            "shell": shell,
            "host": Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0],
        }

    def attack(self, source: str) -> str:
        """What a cell printed; `{host}` and its kin in it are filled in."""
        for name, value in self.names.items():
            source = source.replace(f"{{{name}}}", str(value))
        assert self._shell.stdin is not None
        self._shell.stdin.write(json.dumps(source) + "\n")
        self._shell.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._shell.stdout is not None
        line = self._shell.stdout.readline()
        assert line, "the host is gone"
        return str(json.loads(line))

    def _end(self) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        try:
            self._shell.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()
        assert self._shell.stdout is not None
        self._shell.stdout.close()


@pytest.fixture(scope="module")
def boxed() -> Iterator[Machine]:
    need_bwrap()
    with ExitStack() as stack:
        yield Machine("bwrap", stack)


@pytest.fixture(scope="module")
def contained() -> Iterator[Machine]:
    kind = need_container()
    with ExitStack() as stack:
        yield Machine(kind, stack)


@pytest.fixture(scope="module")
def bare() -> Iterator[Machine]:
    with ExitStack() as stack:
        yield Machine("none", stack)
