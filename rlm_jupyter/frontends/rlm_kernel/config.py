"""`KernelConfiguration`: which models answer, and what they may use; changed between prompts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from rlm_jupyter.frontends.option_line import or_close
from rlm_jupyter.models import Model, load_model
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted

LIMITS = tuple(field.name for field in fields(Limits))


class KernelConfiguration:
    """What the next prompt is answered with. A change that is wrong changes nothing."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self._sub_model: Model | None = None
        self._limits = Limits()
        self._prices: dict[str, tuple[float, ...]] = {}
        self._settings: Settings | None = None
        self.is_named = False
        """Whether somebody said which model: a person here, or `RLM_MODEL`."""

    @property
    def settings(self) -> Settings:
        """What a run takes.

        Raises
        ------
        ConfigurationError
            `RLM_MODEL` names what there is not, or its key is missing.
        """
        if self._settings is None:
            named = os.environ.get("RLM_MODEL") or ""
            model = load_model(named or "extractive")
            self._take(model, None, self._limits, {})
            self.is_named = bool(named)
        assert self._settings is not None
        return self._settings

    def name(
        self,
        model: str | None,
        sub_model: str | None,
        prices: Mapping[str, tuple[float, ...]] | None = None,
        *,
        base_url: str | None = None,
        window: int | None = None,
    ) -> None:
        """Change the models; `prices` (US dollars for a million tokens: input, output, cached) hold from then on.

        Parameters
        ----------
        model
            `None`: the one that there is.
        base_url, window
            As for `RLM`.

        Raises
        ------
        ConfigurationError
            As `load_model` says; or a limit in dollars is set, and the price is not known.
        """
        there = self.settings.routing.root
        if model is None and (base_url or window):
            model = there.name  # made anew, for that address
        root = load_model(model or there, base_url=base_url, window=window)
        sub = None
        if sub_model:
            same = sub_model.partition("/")[0] == root.name.partition("/")[0]
            sub = load_model(sub_model, base_url=base_url, window=window) if same else load_model(sub_model)
        self._take(root, sub, self._limits, {**self._prices, **(prices or {})})
        self.is_named = True

    def limit(self, changes: dict[str, str]) -> None:
        """Change limits, written as `none` or as numbers.

        Raises
        ------
        ConfigurationError
            There is no such limit, it can't be that, or it needs a price that is not known.
        """
        values: dict[str, Any] = {}
        for name, text in changes.items():
            if name not in LIMITS:
                raise ConfigurationError(f"There is no limit {quoted(name)}; there is {or_close(name, LIMITS)}.")
            values[name] = _number(name, text)
        routing = self.settings.routing
        self._take(routing.root, self._sub_model, replace(self._limits, **values), self._prices)

    def described(self) -> str:
        """Return the models, in a line."""
        routing = self.settings.routing
        root, sub = routing.root.name, routing.model_for(1).name
        return f"model {root}" + (f", sub-calls {sub}" if sub != root else "")

    def described_limits(self) -> str:
        """Return the limits that are set, in a line."""
        return " ".join(f"{name}={value}" for name, value in asdict(self._limits).items() if value is not None)

    def _take(
        self, model: Model, sub_model: Model | None, limits: Limits, prices: dict[str, tuple[float, ...]]
    ) -> None:
        # made before anything is kept: it checks all of them together
        try:
            self._settings = RLM(model, sub_model=sub_model, limits=limits, prices=prices).settings
        except ConfigurationError as error:  # %model has the options of the command line, and there is no %config here
            raise ConfigurationError(str(error), notebook=error.for_command_line) from None
        self._model, self._sub_model, self._limits, self._prices = model, sub_model, limits, prices


def _number(name: str, text: str) -> float | int | None:
    if text.lower() == "none":
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"{name} is a number or none, not {quoted(text)}.") from None
