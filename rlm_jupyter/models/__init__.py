"""Models: what is asked, behind one protocol.

`load_model("provider/model")` makes one; `PROVIDERS` says what there is. Importing this loads no SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from rlm_jupyter.models.providers import EMBEDDED, PROVIDERS, Preset
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from typing import Any

    from rlm_jupyter.types.values import Message, Reply, Usage

__all__ = ["PROVIDERS", "Model", "Preset", "load_model"]


class Model(Protocol):
    """A language model, or something that answers like one."""

    @property
    def name(self) -> str:
        """`provider/model`."""
        ...

    @property
    def window(self) -> int:
        """Tokens, input and output; `tokens.DEFAULT_WINDOW` when nothing is known."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        max_output_tokens: int,
        on_text: Callable[[str], None] | None = None,
    ) -> Reply:
        """Ask for a reply of at most `max_output_tokens`.

        Parameters
        ----------
        messages
            The conversation: at most one system message, first; a user message last. Without a system
            message it is a sub-call.
        max_output_tokens
            The cap on what is written, thinking included.
        on_text
            Given each piece of visible text as it arrives.

        A model takes further arguments where its attribute `abilities` says so (`Abilities`).

        Returns
        -------
        Reply
            Its text may be empty, when the cap went into thinking; `finish` says so.

        Raises
        ------
        ModelError
            Or one of its kinds: no answer, window too small.
        """
        ...

    def lease(self) -> AbstractAsyncContextManager[None]:
        """Hold connections open between requests. `complete` holds a lease by itself too."""
        ...

    def cost(self, usage: Usage) -> float | None:
        """Return what `usage` costs, in US dollars; `None` when that is not known."""
        ...


def load_model(
    name: str | Model,
    *,
    base_url: str | None = None,
    api_key: str | None = None,
    window: int | None = None,
    temperature: float | None = None,
    options: Mapping[str, Any] | None = None,
    sees: bool | None = None,
) -> Model:
    """Make the model that `name` stands for; everything that is missing is found out now, before it costs.

    Parameters
    ----------
    name
        `provider/model`, such as `openai/gpt-5.4-mini`; `extractive` alone is the embedded one. A model is
        given back as it is.
    base_url
        Another address than the provider's own (or the one in its environment variable).
    api_key
        By default read from the provider's environment variable.
    window
        Tokens, input and output, where neither server nor price list says it right.
    temperature
        How much chance there is to be in its replies; 0: always the same reply to the same prompt, so that a sub-call
        is not sent twice in a run. By default the server's own; only where chat completions are spoken.
    options
        Sampling options that the provider's SDK is given with every request, by the SDK's names: `temperature`,
        `top_p`, `seed`, `reasoning_effort`, `extra_body`, …
    sees
        Whether it reads images. By default what its own server says, or what is known of its name.

    Returns
    -------
    Model
        Nothing was asked and no SDK loaded yet.

    Raises
    ------
    ConfigurationError
        No such provider, no model named, no key, no address: one line that says what to do.
    """
    if not isinstance(name, str):
        # not isinstance with a runtime protocol: that looks at `window`, which may load a price list.
        if not hasattr(name, "complete"):
            raise ConfigurationError(f"A model is named `provider/model`, not {type(name).__name__}.")
        if (base_url, api_key, window, temperature, options or None, sees) != (None,) * 6:
            raise ConfigurationError(
                f"{name.name} is made already: base_url, api_key, window, temperature, options and sees go with a name."
            )
        return name
    from rlm_jupyter.models.endpoint import find_endpoint, find_preset

    preset, model = find_preset(name.strip())
    _check(name, window, sees)
    if temperature is not None and (preset.wire not in {"openai", "azure"} or not 0 <= temperature <= 2):
        raise ConfigurationError(f"{name}: no temperature of {quoted(temperature)} can be set there.")
    if preset.wire in EMBEDDED:
        if base_url or api_key or options:
            raise ConfigurationError(f"{name} asks no server: it takes neither base_url nor api_key nor options.")
        if sees:
            by_script = ' Its script says so: "sees": true.' if preset.wire == "scripted" else ""
            raise ConfigurationError(f"{name} takes no `sees`.{by_script}")
        return _embedded(preset, model, window)
    from rlm_jupyter.models.sampling import checked

    sent = checked(name, {} if options is None else options)
    endpoint = find_endpoint(preset, model, base_url=base_url, api_key=api_key)
    match preset.wire:
        case "anthropic":
            from rlm_jupyter.models.anthropic import AnthropicModel

            return AnthropicModel(endpoint, window=window, options=sent, sees=sees)
        case "openai" | "azure":
            from rlm_jupyter.models.openai import OpenAIModel

            heat = preset.temperature if temperature is None else temperature
            return OpenAIModel(endpoint, window=window, temperature=heat, options=sent, sees=sees)
        case "extractive" | "scripted":
            raise AssertionError(f"{preset.wire} asks no server")


def _check(name: str, window: object, sees: object) -> None:
    if window is not None and not _is_count(window):
        raise ConfigurationError(f"{name}: a window is a number of tokens above zero, not {quoted(window)}.")
    if sees is not None and not isinstance(sees, bool):
        raise ConfigurationError(f"{name}: sees is True or False, not {quoted(sees)}.")


def _is_count(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and given > 0


def _embedded(preset: Preset, model: str, window: int | None) -> Model:
    if preset.wire == "scripted":
        from rlm_jupyter.models.scripted import load_script

        script = load_script(model)
        script.window = window or script.window
        return script
    from rlm_jupyter.models.extractive import METHOD, ExtractiveModel

    if model != METHOD:
        raise ConfigurationError(f"No extractive model {quoted(model)}: there is `extractive/{METHOD}`.")
    return ExtractiveModel() if window is None else ExtractiveModel(window=window)
