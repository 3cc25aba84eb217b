"""Servers of one's own that are running now: offered by name where nobody named a model, never chosen.

They are looked for on this machine, and where an environment variable says, all at once and for a moment only.
`RLM_FIND_SERVERS=0` leaves them alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from rlm_jupyter.models.endpoint import find_endpoint, without_login
from rlm_jupyter.models.http import FetchError
from rlm_jupyter.models.providers import PROVIDERS, Preset
from rlm_jupyter.models.servers import Served, Server, look
from rlm_jupyter.types.errors import ConfigurationError

LOOK_SECONDS = 0.15
"""Nobody waits longer for servers that they have not asked for."""
_REMEMBER_SECONDS = 5.0
"""Somebody presses Tab again and again."""
_MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Nearby:
    """A server that is there."""

    preset: Preset
    url: str
    server: Server

    @property
    def names(self) -> list[str]:
        """Its models that write, as `provider/model`."""
        return [f"{self.preset.provider}/{model.name}" for model in self.server.models if not model.embeds]


_known: tuple[float, list[Nearby]] = (float("-inf"), [])


def nearby() -> list[Nearby]:
    """Return servers of one's own that run and say what they serve; takes `LOOK_SECONDS` at most, whatever they do."""
    global _known
    seconds = LOOK_SECONDS
    if os.environ.get("RLM_FIND_SERVERS", "").strip() == "0":
        return []
    now = time.monotonic()
    if now - _known[0] < _REMEMBER_SECONDS:
        return _known[1]
    found: dict[str, Nearby] = {}

    def look_at(preset: Preset) -> None:
        try:
            endpoint = find_endpoint(preset, "", base_url=None, api_key=None)
            server = look(endpoint, seconds=seconds, whole=False)
        except (ConfigurationError, FetchError):
            return
        if server.models:
            found[preset.provider] = Nearby(preset, endpoint.url, server)

    presets = [preset for preset in PROVIDERS.values() if preset.local and preset.wire == "openai"]
    threads = [threading.Thread(target=look_at, args=(preset,), daemon=True) for preset in presets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(now + seconds - time.monotonic(), 0.0))
    # in the order of the list, and untouched by a thread that comes late
    _known = (now, [found[preset.provider] for preset in presets if preset.provider in found])
    return _known[1]


def offer(option: str = "-m") -> str:
    """Return one sentence for each server that is there, and how its first model is named; empty: there is none.

    Parameters
    ----------
    option
        By which a model is named where this is said.
    """
    return " ".join(_offered(there, option) for there in nearby() if there.names)


def choices(word: str) -> list[str]:
    """Return what may be meant by the beginning of a model's name: providers, then models of a server that runs now."""
    provider, slash, _ = word.partition("/")
    if not slash:
        names = [f"{name}/" if preset.wire != "extractive" else name for name, preset in PROVIDERS.items()]
    else:
        served = [name for there in nearby() if there.preset.provider == provider for name in there.names]
        preset = PROVIDERS.get(provider)
        names = served or ([preset.example] if preset is not None and preset.example else [])
    return [name for name in names if name.startswith(word)]


def listed(models: Sequence[Served]) -> str:
    """Return names of models in a line; not all of them where they are many."""
    names = [model.name for model in models if not model.embeds] or [model.name for model in models]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def _offered(there: Nearby, option: str) -> str:
    address = urlsplit(without_login(there.url)).netloc
    return f"{there.preset.title} at {address} serves {listed(there.server.models)}: {option} {there.names[0]}."
