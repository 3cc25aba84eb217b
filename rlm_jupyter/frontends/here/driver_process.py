"""`DriverProcess`: the driver as the notebook's kernel sees it: started, heard, stopped, terminated."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass

from rlm_jupyter.frontends.here.pipe import DriverRequest, Pipe
from rlm_jupyter.models import PROVIDERS
from rlm_jupyter.types.errors import RLMError

_LEAVE_SECONDS = 15.0
"""How long the driver may put things away once it is let go."""
_TAIL = 2_000


@dataclass(frozen=True, slots=True)
class Gone:
    """The driver's process has ended."""

    code: int
    said: str
    """The last line of its standard error."""

    def __str__(self) -> str:
        how = f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"
        return f"({how}{': ' + self.said if self.said else ''})"


class DriverProcess:
    """Made by starting it; `close` lets it go.

    Parameters
    ----------
    request
        What it is to do; sent through the pipe.
    hear
        Told each message, and `Gone` last; called on a thread of ours.
    """

    def __init__(self, request: DriverRequest, hear: Callable[[object], None]) -> None:
        self._hear = hear
        environment = {name: value for name, value in os.environ.items() if name not in request.keys}
        # closed by the thread that sees the process off
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "rlm_jupyter.frontends.here"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                bufsize=0,
                env=environment,
                start_new_session=True,  # an interrupt of the notebook's kernel is none of the driver
            )
        except OSError as error:
            self._said.close()
            raise RLMError(f"The process that drives the run could not be started: {error}.") from error
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RLMError("The process that drives the run has no pipe.")
        self._pipe = Pipe(process.stdout.fileno(), os.dup(process.stdin.fileno()))
        process.stdin.close()
        self._pipe.send(request)
        threading.Thread(target=self._listen, name="rlm_jupyter driver", daemon=True).start()

    def send(self, message: object) -> None:
        """Send it a message; safe in a signal handler."""
        self._pipe.send(message)

    def close(self) -> None:
        """Let it go: it writes down what there is, and ends."""
        self._pipe.close()
        watch = threading.Timer(_LEAVE_SECONDS, self._process.kill)
        watch.daemon = True
        watch.start()

    def _listen(self) -> None:
        process = self._process
        with self._said as said, process:
            while (message := self._pipe.receive()) is not None:
                self._hear(message)
            code = process.wait()
            end = said.seek(0, os.SEEK_END)
            said.seek(max(end - _TAIL, 0))
            lines = said.read().decode("utf-8", "replace").strip().splitlines()
        self._hear(Gone(code, lines[-1] if lines else ""))


def provider_keys() -> dict[str, str]:
    """Return the keys of providers that this session has, from its environment or from `%rlm_key`."""
    names = {name for preset in PROVIDERS.values() for name in preset.secret_variables}
    keys = {}
    for name in names:
        with contextlib.suppress(KeyError):
            keys[name] = os.environ[name]
    return keys
