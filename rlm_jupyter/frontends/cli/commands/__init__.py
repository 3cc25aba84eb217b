"""The commands of `jupyter rlm`, a module each, which is imported when its command is called."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Mapping
from typing import Protocol, cast

COMMANDS: Mapping[str, str] = {
    "run": "answer a question about files",
    "batch": "ask one question about each of many items",
    "compare": "tell which of two batches has the better answers",
    "demo": "answer a question about Python's own documentation, without a model, a key or a network",
    "models": "list the models that are served",
    "resume": "continue a run that was interrupted, or that met a limit",
    "fork": "begin a new run with the first iterations of another",
    "replay": "execute a run again without any model, and compare what comes out",
    "mcp": "let another agent ask: a server of the Model Context Protocol",
    "doctor": "say what works here, and what to do where it does not",
    "list": "list the runs that are kept",
    "show": "show a run: its answer, its iterations, their code and outputs",
    "export": "write runs as one file, without keys and home folders",
    "clean": "delete runs that have ended",
}
"""What each does, in the order of the help. Its module here has its name, and the members of `CommandModule`."""


class CommandModule(Protocol):
    """A module of this package."""

    EXAMPLES: str
    """Lines of the shell, for the help."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to its parser."""

    def run(self, args: argparse.Namespace) -> int:
        """Carry the command out; return the exit code."""


def load(name: str) -> CommandModule:
    """Import the module of a command."""
    return cast(CommandModule, importlib.import_module(f"{__name__}.{name}"))
