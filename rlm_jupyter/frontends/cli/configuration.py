"""The `RLM` that a command's options describe, and its parts."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.frontends.run_options import arguments, image_of
from rlm_jupyter.types.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm_jupyter.rlm import RLM
    from rlm_jupyter.types.limits import Limits

_NO_MODEL = (
    "No model is named, so the embedded `extractive` answers. It is not a language model: it picks sentences that "
    "share words with the question.\nName a model by -m or RLM_MODEL, such as -m {examples}."
)
DEFAULT_MODEL = "extractive"
"""The model that answers where none is named."""
_EXAMPLES = ("anthropic", "openai", "ollama")


def limits_of(args: Namespace) -> Limits:
    """Return the limits that were given, beside the defaults."""
    from rlm_jupyter.types.limits import Limits

    given = {field.name: getattr(args, field.name, None) for field in fields(Limits)}
    return Limits(**{name: value for name, value in given.items() if value is not None})


def rlm_of(args: Namespace, model: str, limits: Limits) -> RLM:
    """Return the `RLM` that the options describe."""
    from rlm_jupyter.kernel.remote.server import token_in
    from rlm_jupyter.models.pricing import parsed_prices
    from rlm_jupyter.models.sampling import parsed
    from rlm_jupyter.policies.import_string import import_from_working_folder
    from rlm_jupyter.rlm import RLM  # after what is quickly found to be wrong
    from rlm_jupyter.run.answer_type import read_schema
    from rlm_jupyter.run.mcp.config import named_servers
    from rlm_jupyter.run.toolbox import imported_tools

    import_from_working_folder()  # where policies and tools of the user's own are
    read: dict[str, Callable[[Any], Any]] = {
        "option": parsed,
        "sub_option": parsed,
        "price": parsed_prices,
        "tool": imported_tools,
        "sub_tool": partial(imported_tools, option="--sub-tool"),
        "mcp": named_servers,
        "schema": lambda path: read_schema(Path(path).expanduser()),
        "kernel_token_env": token_in,
    }
    given = arguments("cli", args, read)
    return RLM(model, limits=limits, save=save_path(args), sandbox=_sandbox_of(args), **given)


def save_path(args: Namespace) -> str | bool:
    """Return what `RLM(save=…)` takes; a slash at the end, which makes it a folder, stays.

    Raises
    ------
    ConfigurationError
        No run can be saved there.
    """
    if args.no_save:
        return False
    if args.save is None:
        return True
    from rlm_jupyter.record.store import check_save_path

    path = str(Path(args.save).expanduser())
    save = f"{path}/" if args.save.endswith(("/", os.sep)) else path
    check_save_path(save)
    return save


def model_of(args: Namespace) -> str | None:
    """Return the model that is named; `None`: none is, so the embedded one answers."""
    from rlm_jupyter.models import load_model

    name = args.model or os.environ.get("RLM_MODEL")
    if not name:
        if args.base_url or args.window:
            option = "--base-url" if args.base_url else "--window"
            raise ConfigurationError(f"{option} needs a model: name it by -m, such as -m openai/NAME.")
        return None
    load_model(name, base_url=args.base_url, window=args.window)  # what is wrong is said before files are read
    return str(name)


def say_no_model() -> None:
    """Say who answers where no model is named, and how to name one."""
    from rlm_jupyter.models import PROVIDERS, discovery

    terminal.say(_NO_MODEL.format(examples=", ".join(PROVIDERS[provider].example for provider in _EXAMPLES)))
    if offer := discovery.offer():
        terminal.say(offer)


def _sandbox_of(args: Namespace) -> dict[str, Any]:
    """Return what `Sandbox.of` takes."""
    image = image_of(args.container_image, args.sandbox)
    return {"kind": args.sandbox, "read": args.read or (), "write": args.write or ()} | image
