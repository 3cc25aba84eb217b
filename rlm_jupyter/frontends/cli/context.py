"""The context of `run`: the files that are named, or what is piped in."""

from __future__ import annotations

import os
import select
import stat
import sys
from argparse import Namespace

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.types.errors import ConfigurationError

_SILENT_SECONDS = 1.0
"""How long a pipe may bring nothing before that is said."""


def context_of(args: Namespace) -> object:
    """Return the context; `None` where there is none.

    Raises
    ------
    ConfigurationError
        It can't be read, or there is nothing in it.
    """
    paths = args.context
    if not paths and not _is_piped():
        return None
    from rlm_jupyter.run.files.blank import EmptyContextError
    from rlm_jupyter.run.files.load import STDIN, load

    if paths:
        if marked := [path for path in paths if path[:1] == "@" and not os.path.lexists(path)]:
            raise ConfigurationError(f"{marked[0]}: there is no such file. Here a file is named without the @.")
        context = load(paths, note=terminal.say)
        if STDIN not in paths and not args.quiet and _is_piped() and _brings_something():
            terminal.say("What is piped in is not read, because --context names the context; add - to it for both.")
        return context
    if sys.platform != "win32" and not select.select([sys.stdin], [], [], _SILENT_SECONDS)[0]:
        # a pipe that was inherited, and that nobody writes to or closes, would be waited for without a word
        terminal.say("Reading the context from standard input, a pipe; --context PATH names another.")
    try:
        text = load(STDIN, note=terminal.say)
    except EmptyContextError as error:
        # nobody named it: it may be that there is to be no context
        raise EmptyContextError(f"{error} To ask without a context: < /dev/null") from None
    if not args.quiet:
        terminal.say(f"Context: standard input, {len(str(text)):,} characters.")
    return text


def _is_piped() -> bool:
    """Return whether standard input is a pipe or a file, and not a terminal, a device or closed."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _brings_something() -> bool:
    """Return whether a pipe or a file at standard input has bytes that nobody has read yet."""
    if sys.platform == "win32":
        return False
    from fcntl import ioctl
    from termios import FIONREAD

    return any(ioctl(sys.stdin.fileno(), FIONREAD, bytes(4)))  # of a closed pipe, too, which `select` calls readable
