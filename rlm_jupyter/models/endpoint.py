"""`Endpoint`: a model's name made into an address, a key and headers; what is missing is named at once."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from rlm_jupyter.models.providers import PROVIDERS, Preset
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

AZURE_VERSION_VARIABLES = ("OPENAI_API_VERSION", "AZURE_OPENAI_API_VERSION")
AZURE_VERSION = "2024-10-21"
"""Azure's newest version of this interface that is generally available; used when no variable names one."""
_LOGIN = re.compile(r"(?<=://)[^/?#]*@")


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where one model is asked, and with what. Neither key nor headers show in its `repr`."""

    preset: Preset
    model: str
    """As the provider names it."""
    url: str = field(repr=False)
    """With the name and the password in it, where a server asks for them."""
    key: str | None = field(default=None, repr=False)
    key_variable: str | None = None
    """The environment variable that the key was read from; `None` when it was handed over, or none is."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = AZURE_VERSION
    """Azure only."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        return f"{self.preset.provider}/{self.model}"

    @property
    def shown_url(self) -> str:
        """The address as it may be printed."""
        return without_login(self.url)

    @property
    def is_own(self) -> bool:
        """Whether the server is one's own, by its kind or its address."""
        return self.preset.local or on_this_machine(self.url)

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled: the key must reach no file and no other process."""
        raise TypeError("an Endpoint holds a key and can't be pickled")


def with_advice(before: str, preset: Preset, after: str) -> tuple[str, dict[str, str]]:
    """Say how to give a provider's key, in the middle of an error's text.

    Returns
    -------
    tuple
        The text for Python code, and those for the other front ends, as `RLMError` takes them.
    """
    variables = " or ".join(preset.key_variables)
    return f"{before}Set {variables} in the environment or pass api_key{after}", {
        "notebook": f"{before}Enter it with %rlm_key {preset.provider}, or set {variables} in the environment{after}",
        "command": f"{before}Set {variables} in the environment{after}",
    }


_needs_keys = ContextVar("rlm_jupyter_needs_keys", default=True)


@contextmanager
def keyless() -> Iterator[None]:
    """Let models be made without a key inside: for what asks them nothing."""
    token = _needs_keys.set(False)
    try:
        yield
    finally:
        _needs_keys.reset(token)


def find_endpoint(preset: Preset, model: str, *, base_url: str | None, api_key: str | None) -> Endpoint:
    """Put together where `model` is asked: arguments first, then the environment, then the preset.

    Raises
    ------
    ConfigurationError
        An address or a key is missing or can't be one; the text names the variable to set.
    """
    name = f"{preset.provider}/{model}"
    url = address(preset, base_url)
    if not url:
        raise ConfigurationError(
            f"{name}: {preset.title} needs your own address: set {preset.url_variables[0]} or pass base_url."
        )
    _check_address(name, url)
    if api_key is not None and not isinstance(api_key, str):
        raise ConfigurationError(f"{name}: api_key is a str, not {type(api_key).__name__}.")
    key_variable, key = (None, api_key.strip()) if api_key else _environment(preset.key_variables)
    if not key and _needs_keys.get() and lacks_key(preset, base_url):
        text, elsewhere = with_advice(
            f"{name}: no key for {preset.title}. ",
            preset,
            "; without a key: a local server (llamacpp/…, ollama/…) or the embedded `extractive`.",
        )
        raise ConfigurationError(text, **elsewhere)
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigurationError(
            f"{name}: {key_variable or 'api_key'} holds characters that no key has (a space, a line end?)."
        )
    headers = {header: os.environ.get(variable, "") for header, variable in preset.header_variables.items()}
    if preset.key_header and key:
        headers[preset.key_header] = key
    return Endpoint(
        preset=preset,
        model=model,
        url=url.rstrip("/"),
        key=key or None,
        key_variable=key_variable,
        headers={header: value for header, value in headers.items() if value},
        api_version=_environment(AZURE_VERSION_VARIABLES)[1] or AZURE_VERSION,
    )


def lacks_key(preset: Preset, base_url: str | None = None) -> bool:
    """Return whether a provider is to be asked with a key, and the environment has none."""
    found = _environment(preset.key_variables)[1] or not preset.needs_key
    return not found and not on_this_machine(address(preset, base_url))


def _check_address(name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port  # reading the port checks it
    except ValueError as error:
        raise ConfigurationError(
            f"{name}: {quoted(without_login(url))} is no address ({error}): write one such as http://127.0.0.1:8080/v1."
        ) from None
    if parts.scheme not in {"http", "https"} or not host:
        raise ConfigurationError(
            f"{name}: the address {quoted(without_login(url))} must begin with http:// or https://."
        )
    if not url.isprintable() or " " in parts.netloc:
        raise ConfigurationError(
            f"{name}: the address {quoted(without_login(url))} holds characters that no address has (a space?)."
        )


def address(preset: Preset, base_url: str | None = None) -> str:
    """Return where a provider is asked: what was given, else the environment, else the preset's address."""
    url = (base_url or "").strip() or _environment(preset.url_variables)[1] or preset.base_url
    if not preset.local or not url:
        return url
    scheme, mark, rest = url.rpartition("://")
    host, slash, path = rest.partition("/")
    # as people write it, and as OLLAMA_HOST has it: without a scheme, a port or a path; where it listens everywhere,
    # it is here too
    if host.startswith("0.0.0.0"):
        host = f"127.0.0.1{host.removeprefix('0.0.0.0')}"
    port = urlsplit(preset.base_url).port
    if host.startswith(":"):
        host = f"127.0.0.1{host}"
    elif not mark and not host.rpartition("]")[2].count(":"):
        host = f"{host}:{port}"
    return f"{scheme or 'http'}://{host}/{path if slash and path else 'v1'}"


def unusual_address(model: object) -> str | None:
    """Return where a model is asked, where that was given with it; `None`: where its provider is asked otherwise."""
    at = getattr(model, "endpoint", None)
    return at.url if isinstance(at, Endpoint) and at.url != address(at.preset).rstrip("/") else None


def find_preset(name: str) -> tuple[Preset, str]:
    """Split `provider/model` into its preset and the model's own name.

    Raises
    ------
    ConfigurationError
        There is no such provider, or no model is named.
    """
    provider, _, model = name.partition("/")
    preset = PROVIDERS.get(provider)
    if preset is None:
        from rlm_jupyter.models.suggested import provider_meant

        meant = did_you_mean(provider_meant(name))
        there = meant or f" A model is named `provider/model`, and the providers are {', '.join(PROVIDERS)}."
        raise ConfigurationError(f"No provider {quoted(provider)}.{there}")
    if not model and preset.wire == "extractive":
        return preset, preset.example.partition("/")[2]
    if not model.strip():
        raise ConfigurationError(f"{quoted(name)} names no model: write `{preset.example}`, say.")
    return preset, model


def _environment(variables: tuple[str, ...]) -> tuple[str | None, str]:
    for variable in variables:
        if value := os.environ.get(variable, "").strip():
            return variable, value
    return None, ""


def without_login(url: str) -> str:
    """Return an address without the name and the password in it."""
    return _LOGIN.sub("", url)


def on_this_machine(url: str) -> bool:
    """Return whether an address is one of this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
