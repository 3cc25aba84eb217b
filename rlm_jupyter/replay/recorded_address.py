"""Where the models of a saved run were asked, which is no usual address of theirs."""

from __future__ import annotations

from typing import Any

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.recorded_options import RecordedOptions


def check_given(recorded: RecordedOptions, given: dict[str, Any], asked: str, model: str) -> None:
    """Refuse to ask elsewhere than before: the provider would be sent what was meant for a server of one's own.

    The address is not taken from the record: the key would go to whatever address stands in it.

    Parameters
    ----------
    given
        The options of `RLM` that change something.
    asked
        The model that the run began with, `provider/model`, whose address it is.
    model
        The one that it had last.

    Raises
    ------
    ConfigurationError
        The address has to be given again.
    """
    before, now = recorded.get("base_url"), given.get("model", model)
    if not before or "base_url" in given or not isinstance(now, str) or _provider(now) != _provider(asked):
        return
    what = f"{asked} was asked at {before}: give that address again, or another, "
    option = f"{what}by --base-url URL."
    raise ConfigurationError(f'{what}by base_url="{before}".', notebook=option, command=option)


def _provider(name: str) -> str:
    return name.partition("/")[0]
