"""The parser of `jupyter rlm`: of the commands, only the one that is called is imported, for its arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from rlm_jupyter.frontends.cli import MISUSED, terminal
from rlm_jupyter.frontends.cli.commands import COMMANDS, load

_EXIT_CODES = """\
exit codes:
  0    answered (for list, show, export, clean, mcp: done; for replay: the same came out; for doctor: all works)
  1    ended without an answer of the kind that was asked for, or failed; the best answer so far is printed, if there is
       one (replay: something else came out)
  2    nothing was asked or spent: wrong usage or configuration, a question that is too long for the model's window, no
       such run, or a model's own server is not there
  130  interrupted; the best answer so far is printed likewise
"""
_EXAMPLES = """\
  jupyter rlm demo
  jupyter rlm run "Which tickets lost data?" --context tickets.csv -m anthropic/claude-sonnet-5
  jupyter rlm run "What is the licence of each part?" --context . --max-cost 0.50
  jupyter rlm list
"""
_BY_SCHEMA = ": --answer names a type of a notebook; here the form of an answer is a JSON schema, --schema FILE.json"


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Return the options and arguments of a command, and in `given` the words themselves.

    Raises
    ------
    SystemExit
        They are wrong, and that was said; or it was help that was asked for.
    """
    args = make_parser(next((word for word in argv if word in COMMANDS), None)).parse_args(argv)
    args.given = [*argv]
    return args


def make_parser(name: str | None) -> Parser:
    """Return a parser of all commands, of which one has its arguments; `None`: none has."""
    parser = Parser(
        prog="jupyter rlm",
        description="Ask a question of more text than a model can read, and get the notebook that answers it.",
        epilog=_epilog(_EXAMPLES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands: Any = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for command, does in COMMANDS.items():
        added: Parser = commands.add_parser(
            command,
            help=does,
            description=f"{does[0].upper()}{does[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if command == name:
            module = load(command)
            module.add_arguments(added)
            added.epilog = _epilog(module.EXAMPLES)
            parser.called = added
    return parser


def _epilog(examples: str) -> str:
    return f"examples:\n{examples}\n{_EXIT_CODES}"


class Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line."""

    called: Parser | None = None
    """Of the command that is called; an unknown option comes back from it to that of all commands."""

    def error(self, message: str) -> NoReturn:
        """Say it in one line, with what was probably meant, and end."""
        from rlm_jupyter.frontends.option_line import close_option, plainly

        command = self.called or self
        # a type of a notebook's is named in notebooks alone
        hint = close_option(message, [*command._option_string_actions, "--answer"])
        hint = _BY_SCHEMA if "--answer?" in hint else hint
        is_question = message.startswith("unrecognized arguments") and not re.search(r" --?[a-z]", message)
        if not hint and command.prog.endswith(" run") and is_question:
            hint = ': the question is one argument, in quotes, and files are named by --context ("…" --context PATH)'
        self.exit(MISUSED, f"{self.prog}: {plainly(message)}{hint} (see {command.prog} --help)\n")


class _Version(argparse.Action):
    """Looks the version up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        terminal.write(f"rlm_jupyter {version('rlm_jupyter')}")
        parser.exit()
