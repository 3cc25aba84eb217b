"""`Configured`: what `%rlm` is configured with, and what its options come to."""

from __future__ import annotations

import builtins
import os
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

from IPython.core.magic import Magics
from traitlets import Dict, Float, Integer, Unicode

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.frontends.magics.tools import named_tools
from rlm_jupyter.frontends.magics.traits import OptionTraits
from rlm_jupyter.frontends.run_options import help_of, image_of, options_of
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

_LIMITS = tuple(option.name for option in options_of("magic") if option.group == "limits")
_SENT = "rlm_settings"
"""In the metadata of a page's execute request: its settings, by the names of the traits."""
_BANNER = (
    "No model is named, so the embedded one answers: extractive/bm25 picks passages by their words; it is no "
    "language model. Name one with -m provider/model, %config RLMMagics.model = 'provider/model', or RLM_MODEL in the "
    "environment."
)


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
        model = options.model or self._model()
        base_url, window, sampling = options.base_url, options.window, parsed(options.option)
        usual = self._model()
        if options.model is None or usual is None or _provider(options.model) == _provider(usual):
            # else they are those of another provider, and the key of this one would go to that address
            base_url, window, sampling = (
                base_url or self.base_url,
                window or self.window,
                sampling or self.model_options,
            )
        if model is None:
            if options.base_url or options.window or options.option:
                raise ConfigurationError(
                    "--base-url, --window and --option go with a model: name it with -m provider/model."
                )
            model, base_url, window, sampling = "extractive", None, None, {}
        namespace = cast(Any, self.shell).user_ns
        return model, {
            "sub_model": options.sub_model or self._setting("sub_model"),
            "base_url": base_url,
            "window": window,
            "limits": of_limits,
            "termination": self._policy(options.termination, TerminationPolicy) or self.termination,
            "reward": self._policy(options.reward, RewardPolicy) or self.reward,
            "save": save,
            "prices": self.prices,
            "model_options": sampling,
            "sub_model_options": parsed(options.sub_option) or self.sub_model_options,
            "system_prompt_extra": options.system_extra or self.system_prompt_extra,
            **self._attempts(options),
            "compact_at": self.compact_at if options.compact_at is None else options.compact_at,
            "see_figures": options.see_figures or self.see_figures,
            "answer": self._answer_type(options),
            "outputs": options.output or None,
            "output_dir": options.output_dir or None,
            "replace": options.replace,
            "tools": named_tools(namespace, options.tool),
            "sub_tools": named_tools(namespace, options.sub_tool, "--sub-tool"),
            "mcp": named_servers(options.mcp),
            "sandbox": self._sandbox(options),
            "insurance": not options.here and (options.insurance or self.insurance),
            "preload": options.preload or self.preload,
            **self._server(options),
        }

    def _answer_type(self, options: Namespace) -> object:
        """Return what the answer must be, as the user's own expression says; `None`: any text."""
        if options.schema:
            if options.answer:
                raise ConfigurationError("--answer and --schema both say what the answer is: leave one out.")
            schema = Path(options.schema).expanduser()
            if options.schema in cast(Any, self.shell).user_ns and not schema.exists():
                raise ConfigurationError(
                    f"--schema takes a file: the schema in the variable {options.schema} is --answer {options.schema}."
                )
            return read_schema(schema)
        if not options.answer:
            return None
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

    def _attempts(self, options: Namespace) -> dict[str, Any]:
        """Return how often and in which way the question is asked; one, with the user watching, in their own kernel."""
        given = {"samples": options.samples, "strategy": options.strategy}
        if options.here or options.approve:
            where = "--here" if options.here else "--approve"
            for name, value in given.items():
                if value not in {None, 1, "loop"}:
                    raise ConfigurationError(f"{where} takes one run, in one kernel: leave --{name} out.")
            return {}
        found = {name: getattr(self, name) if value is None else value for name, value in given.items()}
        return found | {"require_agreement": options.require_agreement or self.require_agreement}

    def _sandbox(self, options: Namespace) -> Sandbox:
        if options.here:
            return NO_SANDBOX  # it is this session's own kernel
        kind = options.sandbox or self._setting("sandbox")
        read, write = options.read or self.read, options.write or self.write
        image = image_of(options.container_image, kind)
        if not image and self.container_image:
            image = {"image": self.container_image}  # it waits for a cell with a container
        return Sandbox.of({"kind": kind, "read": read, "write": write} | image)

    def _server(self, options: Namespace) -> dict[str, Any]:
        """Return where kernels are started; under `--here` none is."""
        if options.here:
            return {}
        kernel, token = options.kernel_url or self.kernel, None
        if options.kernel_token_env is not None:
            from rlm_jupyter.kernel.remote.server import token_in  # most runs have none

            token = token_in(options.kernel_token_env)
        return {"kernel": kernel, "token": token}

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
