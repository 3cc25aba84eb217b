"""`models`: what is served, by one's own servers that run and by providers whose key is there."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser, Namespace
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import ANSWERED, FAILED, terminal
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import closest, did_you_mean

if TYPE_CHECKING:
    from rlm_jupyter.models.providers import Preset
    from rlm_jupyter.models.servers import Server

_HOSTED_SECONDS = 10.0
_MOST_AT_ONCE = 8


@dataclass(frozen=True)
class _Found:
    """What a provider has, or why nobody knows."""

    preset: Preset
    url: str
    server: Server | None
    why: str = ""


EXAMPLES = """\
  jupyter rlm models
  jupyter rlm models ollama
  jupyter rlm models llamacpp --base-url http://192.168.1.5:8080/v1
"""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the command's arguments to its parser."""
    parser.add_argument(
        "provider", nargs="?", metavar="PROVIDER", help="one only (default: your own servers, and all with a key)"
    )
    parser.add_argument("--base-url", metavar="URL", help="where it is")
    parser.add_argument("--json", action="store_true", help="print them as JSON")


def run(args: Namespace) -> int:
    """Run `jupyter rlm models`; return the exit code: 1 where the one that was named lists nothing.

    Raises
    ------
    ConfigurationError
        There is no such provider, or no key for the one that was named.
    """
    from rlm_jupyter.models.providers import EMBEDDED, PROVIDERS

    served = {name: preset for name, preset in PROVIDERS.items() if preset.wire not in EMBEDDED}
    if args.provider is None:
        if args.base_url:
            raise ConfigurationError("--base-url needs a provider: jupyter rlm models llamacpp --base-url URL.")
        chosen = [preset for preset in served.values() if preset.local or _has_key(preset)]
    elif args.provider in served:
        chosen = [served[args.provider]]
    else:
        hint = did_you_mean(closest(args.provider, served)) or f" There are {', '.join(served)}."
        raise ConfigurationError(f"No provider {quoted(args.provider)} serves models.{hint}")
    if args.provider is not None:
        _check_key(chosen[0], args.base_url)
    with ThreadPoolExecutor(_MOST_AT_ONCE) as pool:
        found = list(pool.map(lambda preset: _look(preset, args.base_url), chosen))
    if args.json:
        terminal.write(json.dumps([fact for provider in found for fact in _facts(provider)]))
    else:
        for provider in found:
            _tell(provider)
        if args.provider is None:
            terminal.say("Embedded, for a try without a model:")
            terminal.write("extractive")
        if args.provider is None and (others := [name for name, preset in served.items() if preset not in chosen]):
            terminal.say(f"No key for {', '.join(others)}: what they serve is not listed.")
    return FAILED if args.provider is not None and found[0].server is None else ANSWERED


def _check_key(preset: Preset, base_url: str | None) -> None:
    from rlm_jupyter.models.endpoint import find_endpoint

    if preset.wire != "azure":
        find_endpoint(preset, "", base_url=base_url, api_key=None)


def _has_key(preset: Preset) -> bool:
    return any(os.environ.get(variable, "").strip() for variable in preset.key_variables)


def _look(preset: Preset, base_url: str | None) -> _Found:
    """Ask one provider what it serves."""
    from rlm_jupyter.models.endpoint import find_endpoint
    from rlm_jupyter.models.http import FetchError
    from rlm_jupyter.models.sdk_errors import how_to_start
    from rlm_jupyter.models.servers import LOOK_SECONDS, look

    if preset.wire == "azure":
        return _Found(preset, "", None, "its deployments are listed in its portal only")
    try:
        endpoint = find_endpoint(preset, "", base_url=base_url, api_key=None)
    except ConfigurationError as error:
        return _Found(preset, "", None, error.for_command_line.partition(": ")[2])
    seconds = LOOK_SECONDS if preset.local else _HOSTED_SECONDS
    try:
        server = look(endpoint, seconds=seconds)
    except FetchError as error:
        if error.status is None and preset.local:
            why = f"not running. {how_to_start(preset)}"
        elif error.status in {401, 403}:
            why = f"wants another key ({error.status}): set {' or '.join(preset.key_variables)}"
        else:
            why = f"{error.status or 'no answer'}: {error.said}"
        return _Found(preset, endpoint.shown_url, None, why)
    if not server.models:
        return _Found(preset, endpoint.shown_url, None, "lists no models")
    return _Found(preset, endpoint.shown_url, server)


def _tell(found: _Found) -> None:
    """Write one line for each model, which begins with what `-m` takes."""
    at = f" at {found.url}" if found.url else ""
    if found.server is None:
        terminal.say(f"{found.preset.title}{at}: {found.why}")
        return
    slots = found.server.slots
    terminal.say(f"{found.preset.title}{at}{f', {slots} at once' if slots and slots > 1 else ''}:")
    facts = _facts(found)
    width = max(len(str(fact["name"])) for fact in facts)
    for fact in facts:
        words = [f"{fact['window']:,} tokens"] if fact["window"] else []
        words += ["embeddings only"] if fact["embeds"] else [] if fact["is_loaded"] else ["not loaded yet"]
        terminal.write(f"{fact['name']!s:{width}}  {', '.join(words)}".rstrip())


def _facts(found: _Found) -> list[dict[str, str | int | bool | None]]:
    from rlm_jupyter.models import pricing

    provider = found.preset.provider
    return [
        {
            "name": f"{provider}/{model.name}",
            "window": model.window or pricing.window(f"{provider}/{model.name}"),
            "embeds": model.embeds,
            "is_loaded": model.is_loaded,
        }
        for model in (found.server.models if found.server is not None else ())
    ]
