"""The command line, `jupyter rlm`: call a command, and end with its exit code however it ends."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from rlm_jupyter.frontends.cli import FAILED, INTERRUPTED, MISUSED, terminal
from rlm_jupyter.frontends.cli.commands import COMMANDS, load
from rlm_jupyter.frontends.cli.parser import parsed
from rlm_jupyter.types.errors import ConfigurationError, RLMError


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv
        The arguments; those of the process when left out.

    Returns
    -------
    int
        The exit code; `jupyter rlm --help` lists what they mean.
    """
    terminal.settle_streams()
    try:
        args = parsed(sys.argv[1:] if argv is None else argv)
        if args.command is None:
            raise ConfigurationError(f"A command is missing: {_listed(*COMMANDS)} (see jupyter rlm --help).")
        with _Terminated():
            code = load(args.command).run(args)
        sys.stdout.flush()
    except RLMError as error:
        code = MISUSED if isinstance(error, ConfigurationError) else FAILED
        _complain(f"jupyter rlm: {terminal.one_line(error.for_command_line, 2_000)}")
    except SystemExit as end:
        code = int(end.code or 0)  # of --help, --version, and what the parser refuses
    except KeyboardInterrupt:
        # a third one would only bring a traceback out of the last clearing up
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = INTERRUPTED
        _complain("Interrupted.")
    except BrokenPipeError:
        code = FAILED
    except OSError as error:
        code = FAILED
        said = f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}"
        _complain(f"jupyter rlm: {said if _has_folder() else 'the working directory is gone: change to another.'}")
    terminal.drop_streams()
    return code


def _has_folder() -> bool:
    """Return whether the working directory is there."""
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _listed(*names: str) -> str:
    return f"{', '.join(names[:-1])} or {names[-1]}"


def _complain(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody may be left to read it
        terminal.say(text)


class _Terminated:
    """Treats SIGTERM and a terminal that is closed as Ctrl-C: the kernel and the bill end with the command."""

    def __enter__(self) -> None:
        self._before: dict[int, Any] = {}
        for name in ("SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            # what `nohup` had ignored stays so
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.signal(number, self._interrupt)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @staticmethod
    def _interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
