"""`mcp`: serve runs to other agents, or say how an agent's configuration names this server."""

from __future__ import annotations

import contextlib
import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import ANSWERED, terminal
from rlm_jupyter.frontends.cli.configuration import DEFAULT_MODEL, limits_of, model_of, rlm_of, say_no_model
from rlm_jupyter.frontends.cli.install import CLIENTS, install
from rlm_jupyter.frontends.cli.shared_arguments import add_options
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm_jupyter.frontends.agents.service import Service

_FOLDERS = {"--root", "--save", "--read", "--write"}
"""Options that name folders: relative ones begin here, and not where an agent starts the server."""
EXAMPLES = """\
  jupyter rlm mcp --install claude -m anthropic/claude-sonnet-5 --max-cost 0.50
  jupyter rlm mcp --install codex --merge -m openai/gpt-5.4-mini --total-cost 5
  jupyter rlm mcp -m ollama/qwen3:8b --root ~/papers
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder whose files may be asked about (default: the roots that the client names, else the working "
        "directory)",
    )
    parser.add_argument(
        "--wait",
        type=float,
        metavar="SECONDS",
        help="how long a call waits for its run before it says that it goes on (default: 50)",
    )
    parser.add_argument("--save", metavar="FOLDER", help="where runs are kept (default: rlm_runs/)")
    parser.add_argument("--total-cost", type=float, metavar="USD", help="US dollars that all runs may cost together")
    parser.add_argument(
        "--install", choices=[*CLIENTS], help="print what this agent's configuration has to say, and end"
    )
    parser.add_argument(
        "--merge", action="store_true", help="with --install: put it into that file, beside what is there"
    )
    parser.set_defaults(no_save=False)
    add_options(parser, "agents")


def run(args: Namespace) -> int:
    """Run `jupyter rlm mcp`; return the exit code."""
    if args.merge and not args.install:
        raise ConfigurationError("--merge goes with --install: jupyter rlm mcp --install claude --merge")
    from rlm_jupyter.frontends.agents import roots
    from rlm_jupyter.models.endpoint import keyless

    # what is wrong with the options is said now: with --install, later it would stand in another program's log
    owner_roots = roots.owners(args.root)
    with (
        contextlib.redirect_stdout(sys.stderr),  # what tools of the user's print as they are imported
        keyless() if args.install else contextlib.nullcontext(),  # of a key only its variable's name is written
    ):
        service = service_of(args)
    if args.install:
        missing = missing_keys_of(args)
        install(args.install, arguments_of(args.given), [*keys_of(args), *missing], merge=args.merge)
        if missing:
            named = " and ".join(missing)
            terminal.say(f"{named} has no value here: set it where {CLIENTS[args.install].title} is started.")
        return ANSWERED
    from rlm_jupyter.frontends.agents.stdio import serve

    if sys.stdin.isatty():
        terminal.say("Serving an agent's client over standard input and output (Ctrl-D ends). To set one up: --install")
    serve(service, owner_roots)
    return ANSWERED


def arguments_of(given: list[str]) -> list[str]:
    """Return the arguments that start this server again, from any folder: as typed, without those of `--install`."""
    words, kept = iter(given), []
    for word in words:
        option, is_joined, value = word.partition("=")
        if word == "--merge" or option == "--install":
            next(words) if option == "--install" and not is_joined else None
        elif option in _FOLDERS:
            kept += [option, str(Path(value if is_joined else next(words)).expanduser().absolute())]
        else:
            kept.append(word)
    return kept


def keys_of(args: Namespace) -> list[str]:
    """Return the names of the variables that are set here, and that the models are reached by."""
    from rlm_jupyter.models import PROVIDERS

    names = (args.model or os.environ.get("RLM_MODEL"), args.sub_model)
    presets = [PROVIDERS[name.partition("/")[0]] for name in names if name]
    wanted = [
        variable
        for preset in presets
        for variable in (*preset.key_variables, *preset.url_variables, *preset.header_variables.values())
    ]
    wanted += [] if args.model else ["RLM_MODEL"]
    return [variable for variable in dict.fromkeys(wanted) if os.environ.get(variable, "").strip()]


def missing_keys_of(args: Namespace) -> list[str]:
    """Return the names of the variables that hold the keys of models, and are not set here."""
    from rlm_jupyter.models.endpoint import find_preset, lacks_key

    models = ((args.model or os.environ.get("RLM_MODEL"), args.base_url), (args.sub_model, None))
    asked = [(find_preset(name)[0], base_url) for name, base_url in models if name]
    return [*dict.fromkeys(preset.key_variables[0] for preset, base_url in asked if lacks_key(preset, base_url))]


def service_of(args: Namespace, prefix: str = "") -> Service:
    """Return what does the work, with the owner's options.

    Parameters
    ----------
    prefix
        Of the tools' names.

    Raises
    ------
    ConfigurationError
        Something is wrong with them.
    """
    from rlm_jupyter.frontends.agents.service import WAIT_SECONDS, Owner, Service, within
    from rlm_jupyter.record.store import FOLDER, folder_of

    for name in ("wait", "total_cost"):
        if (value := getattr(args, name)) is not None and not value > 0:
            raise ConfigurationError(f"--{name.replace('_', '-')} {value:g}: it must be more than zero.")
    if args.save is not None:
        args.save = args.save.rstrip("/") + "/"
    model, limits = model_of(args), limits_of(args)
    # a limit in dollars needs prices
    rlm = rlm_of(args, model or DEFAULT_MODEL, limits if args.total_cost is None else within(limits, args.total_cost))
    if model is None:
        say_no_model()
    folder = folder_of(rlm.settings.save) or Path(FOLDER)
    owner = Owner(limits, folder, WAIT_SECONDS if args.wait is None else args.wait, args.total_cost, prefix)
    return Service(owner, lambda limits: rlm_of(args, model or DEFAULT_MODEL, limits))
