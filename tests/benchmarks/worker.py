"""`Worker`: a process that is told what to do, a line of JSON at a time.

Every contender is measured in a process of its own, so that neither memory nor imports nor a busy event
loop of one shows in the figures of another. This module is imported by all of them, in whichever virtual
environment they live: it needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[2]
_LINE = "A line of text that is about as long as lines of text are, so that there is something to count.\n"
_GOODBYE_SECONDS = 15.0


class WorkerError(Exception):
    """A worker could not do what it was told; the text is its traceback, or says that the time was up."""


class Worker:
    """A process of `serve`, from the outside.

    Parameters
    ----------
    command
        What starts it.
    seconds
        How long an action may take.
    """

    def __init__(self, command: Sequence[str], *, seconds: float = 180.0) -> None:
        self._seconds = seconds
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )

    def do(self, action: str, **options: Any) -> Any:
        """Have something done, and return what came of it.

        Raises
        ------
        WorkerError
            It failed, or took too long; the worker is of no use after that.
        """
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        try:
            to.write(json.dumps({"do": action} | options).encode() + b"\n")
            to.flush()
        except BrokenPipeError:
            raise WorkerError(self._stderr_tail()) from None
        ready, _, _ = select.select([back], [], [], self._seconds)
        if not ready:
            raise WorkerError(f"{action} took longer than {self._seconds:.0f} s")
        line = back.readline()
        if not line:
            raise WorkerError(self._stderr_tail())
        done = json.loads(line)
        if "error" in done:
            raise WorkerError(done["error"])
        return done["result"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Let it put its things away, then end it and all that it started."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GOODBYE_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()

    def _stderr_tail(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2000:].strip() or "it ended without a word"


def serve(actions: Mapping[str, Callable[..., Any]], at_end: Callable[[], object] = lambda: None) -> None:
    """Do what comes in on standard input, until it ends.

    Parameters
    ----------
    actions
        By name; each gets its options by keyword and returns what JSON can hold.
    at_end
        Puts away what is still open: a thread left over would keep the process from ending.
    """
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        # what the code under measurement prints is not an answer
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        for line in sys.stdin:
            options = json.loads(line)
            try:
                done = {"result": actions[options.pop("do")](**options)}
            except Exception:  # noqa: BLE001  whoever asked is told
                done = {"error": traceback.format_exc()}
            answers.write(json.dumps(done) + "\n")
            answers.flush()
    at_end()


def text_of(nbytes: int) -> str:
    """So much text, in lines; ASCII."""
    return (_LINE * (nbytes // len(_LINE) + 1))[:nbytes]


def resident() -> int:
    """Bytes in memory of this process and all that it started; what is shared counts once.

    Files in memory count for the whole system: of one that nobody has mapped, no process is said to have any.
    """
    import psutil  # here: not every action needs it, and imports are measured too

    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(own(process.pid) for process in processes) + in_files()


def own(process: int) -> int:
    """Return the bytes that a process has in memory without files that are there (PSS); none of one that has ended."""
    with contextlib.suppress(OSError):
        found = _fields(Path(f"/proc/{process}/smaps_rollup"))
        return found["Pss"] - found.get("Pss_Shmem", 0)
    return 0


def in_files() -> int:
    """Return the bytes of all files that are in memory alone."""
    return _fields(Path("/proc/meminfo"))["Shmem"]


def _fields(path: Path) -> dict[str, int]:
    """Return what stands in such a file, in bytes."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {words[0][:-1]: int(words[1]) * 1024 for words in lines if words[-1] == "kB"}


def seconds_of_python(source: str) -> float:
    """How long this interpreter takes to start and run `source`."""
    import time

    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", source], check=True, cwd=ROOT)
    return time.perf_counter() - began
