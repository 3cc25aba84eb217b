"""`Configured`: what `%rlm` is configured with, and what its options come to."""

from __future__ import annotations

import builtins
import os
from argparse import Namespace
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, cast

from IPython.core.magic import Magics
from traitlets import Dict, Float, Integer, Unicode

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.frontends.magics.tools import named_tools
from rlm_jupyter.frontends.magics.traits import OptionTraits
from rlm_jupyter.frontends.run_options import OPTIONS, arguments, help_of, image_of, options_of
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.models import discovery
from rlm_jupyter.models.endpoint import keyless
from rlm_jupyter.models.sampling import parsed
from rlm_jupyter.policies import RewardPolicy, TerminationPolicy
from rlm_jupyter.record.store import check_save_path
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run.answer_type import read_schema
from rlm_jupyter.run.mcp.config import named_servers
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import closest, did_you_mean

_OF_A_SERVER = frozenset({"base_url", "window", "model_options"})
"""What is given for the model of one provider."""
_OF_OTHER_KERNELS = frozenset({"insurance", "preload", "kernel", "token"})
"""What has no meaning under `--here`: the kernel is there."""
_UNDER_HERE: dict[str, object] = {"samples": 1, "strategy": "loop", "require_agreement": False}
_LIMITS = tuple(option.name for option in options_of("magic") if option.group == "limits")
_SENT = "rlm_settings"
"""In the metadata of a page's execute request: its settings, by the names of the traits."""
_BANNER = (
    "No model is named, so the embedded one answers: extractive/bm25 picks passages by their words; it is no "
    "language model. Name one with -m provider/model, %config RLMMagics.model = 'provider/model', or RLM_MODEL in the "
    "environment."
)


def _token_in(variable: str) -> str:
    from rlm_jupyter.kernel.remote.server import token_in  # most runs have none

    return token_in(variable)


def _provider(model: str) -> str:
    return model.partition("/")[0]


class Configured(Magics, OptionTraits):
    """Magics with a configuration: options first, then these traits, the page's settings, and the environment."""

    _banner_shown = False
    kernel = Unicode(None, allow_none=True, help=help_of("kernel_url")).tag(config=True)
    prices = Dict(
        help="What models cost, in US dollars for a million tokens: {'provider/model': (input, output[, cached])}. "
        "Default: list prices."
    ).tag(config=True)

    model_options = Dict(help="Sampling options of the model, by the SDK's names: {'seed': 1}.").tag(config=True)
    sub_model_options = Dict(help="Sampling options of the model that answers sub-calls.").tag(config=True)
    system_prompt_extra = Unicode(help="A paragraph to add to the system message of runs.").tag(config=True)

    max_kept_kernels = Integer(
        4, min=1, help="Kernels that are kept for further prompts; the one that was not used for longest goes first."
    ).tag(config=True)
    kernel_idle_seconds = Float(
        3600.0, allow_none=True, help="After so long without use, a kept kernel is closed. None: never."
    ).tag(config=True)

    def configured(self, options: Namespace) -> RLM:
        """Make what the options and the configuration say; for an estimate, no key is needed.

        Raises
        ------
        ConfigurationError
            Something is wrong or missing.
        """
        model, configuration = self.configuration(options)
        with keyless() if options.estimate else nullcontext():
            return RLM(model, **configuration)

    def configuration(self, options: Namespace) -> tuple[str, dict[str, Any]]:
        """Return model and options of `RLM`: options first, then traits, the page's settings, and the environment."""
        save = options.save or self.save
        check_save_path(save)
        limits = {name: getattr(options, name) for name in _LIMITS}
        limits = {name: self._setting(name) if value is None else value for name, value in limits.items()}
        of_limits = Limits(**{name: value for name, value in limits.items() if value is not None})
        given = self._given(options)
        model, set_before = options.model or self._model(), self._set_before(options)
        if model is None:
            if options.base_url or options.window or options.option:
                raise ConfigurationError(
                    "--base-url, --window and --option go with a model: name it with -m provider/model."
                )
            model, set_before = "extractive", self._without_server(set_before)
        found = set_before | given
        if options.here:
            found = {name: value for name, value in found.items() if name not in _OF_OTHER_KERNELS}
        if options.here or options.approve:
            found = self._once(options, found)
        return model, {**found, "limits": of_limits, "save": save, "sandbox": self._sandbox(options)}

    def _given(self, options: Namespace) -> dict[str, Any]:
        """Return the arguments of `RLM` that stand in the cell."""
        namespace = cast(Any, self.shell).user_ns
        read: dict[str, Callable[[Any], Any]] = {
            "option": parsed,
            "sub_option": parsed,
            "termination": lambda name: self._policy(name, TerminationPolicy),
            "reward": lambda name: self._policy(name, RewardPolicy),
            "tool": partial(named_tools, namespace),
            "sub_tool": partial(named_tools, namespace, option="--sub-tool"),
            "mcp": named_servers,
            "kernel_token_env": _token_in,
            "answer": lambda _: self._answer_type(options),
            "schema": lambda _: self._answer_type(options),
        }
        return arguments("magic", options, read)

    def _set_before(self, options: Namespace) -> dict[str, Any]:
        """Return the arguments of `RLM` that traits or JupyterLab's settings hold."""
        own = [option for option in OPTIONS if option.part == "rlm" and "config" in option.surfaces | option.elsewhere]
        found = {option.keyword: self._setting(option.keyword) for option in own}
        usual = self._model()
        if options.model is not None and usual is not None and _provider(options.model) != _provider(usual):
            # they are those of another provider, and the key of this one would go to that address
            found = self._without_server(found)
        return {name: value for name, value in found.items() if value is not None}

    def address(self, model: str) -> str | None:
        """Return where the provider of this model is asked, as far as that is configured."""
        usual = self._model()
        return self._setting("base_url") if usual is None or _provider(usual) == _provider(model) else None

    @staticmethod
    def _without_server(found: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in found.items() if name not in _OF_A_SERVER}

    @staticmethod
    def _once(options: Namespace, found: dict[str, Any]) -> dict[str, Any]:
        """Return them for one run in one kernel, with the user watching; what the cell asks for beyond is refused."""
        where = "--here" if options.here else "--approve"
        for name, one in _UNDER_HERE.items():
            if getattr(options, name) not in {None, one}:
                raise ConfigurationError(f"{where} takes one run, in one kernel: leave --{name.replace('_', '-')} out.")
        return {name: value for name, value in found.items() if name not in _UNDER_HERE}

    def _answer_type(self, options: Namespace) -> object:
        """Return what the answer must be: the user's own expression, or a schema in a file."""
        if options.schema:
            if options.answer:
                raise ConfigurationError("--answer and --schema both say what the answer is: leave one out.")
            schema = Path(options.schema).expanduser()
            if options.schema in cast(Any, self.shell).user_ns and not schema.exists():
                raise ConfigurationError(
                    f"--schema takes a file: the schema in the variable {options.schema} is --answer {options.schema}."
                )
            return read_schema(schema)
        if "(" in options.answer:  # a call could do something before anybody has agreed
            raise ConfigurationError(
                f"--answer takes a type, not {quoted(options.answer)}: give what is called a name in a cell first."
            )
        namespace = cast(Any, self.shell).user_ns
        try:
            return eval(options.answer, namespace)
        except Exception as error:
            types = [name for name, value in {**vars(builtins), **namespace}.items() if isinstance(value, type)]
            meant = did_you_mean(closest(error.name or "", types)) if isinstance(error, NameError) else ""
            raise ConfigurationError(
                f"--answer takes a type, not {quoted(options.answer)}: {type(error).__name__}: {error}.{meant}"
            ) from error

    def _sandbox(self, options: Namespace) -> Sandbox:
        if options.here:
            return NO_SANDBOX  # it is this session's own kernel
        kind = options.sandbox or self._setting("sandbox")
        read, write = options.read or self.read, options.write or self.write
        image = image_of(options.container_image, kind)
        if not image and self.container_image:
            image = {"image": self.container_image}  # it waits for a cell with a container
        return Sandbox.of({"kind": kind, "read": read, "write": write} | image)

    def _policy(self, named: str | None, kind: type) -> Any:
        """Look an option up: a policy, or a function that rates, in a variable of that name; else the name."""
        value = cast(Any, self.shell).user_ns.get(named) if named else None
        is_rating = kind is RewardPolicy and callable(value) and not isinstance(value, type)
        return value if isinstance(value, kind) or is_rating else named

    def _model(self) -> str | None:
        return self._setting("model") or os.environ.get("RLM_MODEL") or None

    def _setting(self, name: str) -> Any:
        """Return a trait or, where it is not set, what JupyterLab's settings say: they come with the cell's request."""
        if (value := getattr(self, name)) is not None:
            return value
        get_parent = getattr(getattr(self.shell, "kernel", None), "get_parent", None)
        sent = ((get_parent() or {}).get("metadata") or {}).get(_SENT) if get_parent is not None else None
        value = sent.get(name) if isinstance(sent, dict) else None
        return value if isinstance(value, str | int | float) and value else None

    def say_if_embedded(self, options: Namespace) -> None:
        """Say, once, that the embedded model answers where none is named."""
        if not (options.model or self._model() or self._banner_shown):
            self._banner_shown = True
            text = " ".join(filter(None, [_BANNER, discovery.offer()]))
            html = fragments.block(fragments.note(text))
            cast(Any, self.shell).display_pub.publish({"text/html": html, "text/plain": text})
