"""The arguments of `RLM`, checked and brought into one form.

Each function raises `ConfigurationError` where one can't be: a line that says what to do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from rlm_jupyter.kernel import supervisor
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.models import Model, load_model
from rlm_jupyter.models.abilities import abilities_of, fixed
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.models.suggested import priced_model_meant
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.run.artefacts import Outputs
from rlm_jupyter.run.figures import SeeFigures
from rlm_jupyter.run.settings import Strategy
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import did_you_mean

if TYPE_CHECKING:
    from rlm_jupyter.kernel.remote.server import JupyterServer


def served(
    model: str | Model,
    sub_model: str | Model | Sequence[str | Model] | None,
    given: dict[str, Any],
    *,
    root: Mapping[str, Any] | None,
    sub: Mapping[str, Any] | None,
) -> tuple[str | Model, str | Model | Sequence[str | Model] | None]:
    """Load the models of the first one's provider with what was given for that provider.

    Parameters
    ----------
    given
        `base_url`, `window` and `api_key`, as for `load_model`.
    root, sub
        The sampling options of the model and of the sub-models.
    """
    if all(value is None for value in (*given.values(), root, sub)):
        return model, sub_model
    first = load_model(model, **given, options=root)
    provider = first.name.partition("/")[0]

    def there(name: str | Model) -> str | Model:
        same = isinstance(name, str) and name.partition("/")[0] == provider
        return load_model(name, **(given if same else {}), options=sub)

    if sub_model is None:
        return first, None if sub is None else there(model)
    if isinstance(sub_model, str) or not isinstance(sub_model, Sequence):
        return first, there(sub_model)
    return first, [there(name) for name in sub_model]


def outputs_of(wanted: object, folder: str | Path | None, replaces: bool, samples: int, model: Model) -> Outputs | None:
    """Check the files that a run is to make: that the model can, and once; several samples would make each again."""
    found = Outputs.of(wanted, folder, replaces)
    if found is not None and abilities_of(model).answers_in_text:
        what = f"{model.name} answers in text, and makes no files: name another model"
        raise ConfigurationError(f"{what}.", notebook=f"{what} (-m).", command=f"{what} (-m).")
    if found is None and (folder is not None or replaces):
        raise ConfigurationError(
            "output_dir and replace say where files go: name these by outputs=[…].",
            notebook="--output-dir and --replace say where files go: name these by --output.",
            command="--output-dir and --replace say where files go: name these by --output.",
        )
    if found is not None and samples > 1:
        raise ConfigurationError("Files are made by one run: leave samples out, or outputs.")
    return found


def answer_of(wanted: object, model: Model) -> AnswerType | None:
    """Check what the answer is to be, and that the model can give such a one."""
    found = AnswerType.of(wanted)
    if found is not None and abilities_of(model).answers_in_text and found.schema.get("type") != "string":
        what = f"{model.name} answers in text, and can give no answer of a type: name another model"
        raise ConfigurationError(f"{what}.", notebook=f"{what} (-m).", command=f"{what} (-m).")
    return found


def share_of(compact_at: object) -> float | None:
    """Check the share of the window at which a conversation is compacted; `None` and 0 say never."""
    if compact_at is None or compact_at == 0:
        return None
    if isinstance(compact_at, bool) or not isinstance(compact_at, int | float) or not 0 < compact_at <= 1:
        what = f"is a share of the window, as 0.8, or 0 for never, not {quoted(compact_at)}."
        option = f"--compact-at {what}"
        raise ConfigurationError(f"compact_at {what}", notebook=option, command=option)
    return float(compact_at)


def named(policy: object) -> Any:
    """Return a policy for the record: as it was named; of an object only what it is."""
    if policy is None or isinstance(policy, str):
        return policy
    try:
        if isinstance(policy, Mapping):
            return json.loads(json.dumps(dict(policy)))
    except (TypeError, ValueError):
        pass  # there is an object in its configuration
    return {"object": getattr(policy, "__qualname__", type(policy).__qualname__)}


def check_types(limits: object, save: object, cwd: object, insurance: object, system_prompt_extra: object) -> None:
    """Refuse what has the wrong type, no working directory, and insurance where no kernel can be forked."""
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits is a Limits(...), not {type(limits).__name__}.")
    if not isinstance(save, bool | str | Path):
        raise ConfigurationError(f"save is a path, True or False, not {type(save).__name__}.")
    if not isinstance(system_prompt_extra, str):
        raise ConfigurationError(f"system_prompt_extra is a str, not {type(system_prompt_extra).__name__}.")
    if not isinstance(insurance, bool):
        raise ConfigurationError(f"insurance is True or False, not {type(insurance).__name__}.")
    if insurance and not supervisor.can_fork_live():
        raise ConfigurationError("insurance=True needs a system on which a kernel can be forked: Linux.")
    if cwd is not None and not (isinstance(cwd, str | Path) and Path(cwd).is_dir()):
        raise ConfigurationError(f"The kernel's working directory {cwd} does not exist.")


def server_of(kernel: object, token: object, **local: object) -> JupyterServer | None:
    """Check the Jupyter server that kernels are started on, and that nothing is asked for that a server can't do.

    Parameters
    ----------
    local
        `cwd`, `sandbox`, `insurance` and `preload`, which are of this machine.
    """
    if kernel is None and token is None:
        return None
    from rlm_jupyter.kernel.remote.server import JupyterServer  # most runs have none

    server = JupyterServer.of(kernel, token)
    if server is not None:
        asked = _asked_of_sandbox(local.pop("sandbox"))
        if wanted := [name for name, value in local.items() if value] + (["sandbox"] if asked else []):
            what = f"{wanted[0]} is of kernels on this machine, not on a server"
            option = "the sandbox" if asked and wanted == ["sandbox"] else f"--{wanted[0]}"
            raise ConfigurationError(
                f"{what}: leave it out, or kernel.",
                notebook=f"{what}: leave {option} out, or --kernel-url.",
                command=f"{what}: leave {option} out, or --kernel-url.",
            )
    return server


def _asked_of_sandbox(sandbox: object) -> bool:
    """Return whether a sandbox is asked for, and not just whatever there is."""
    if isinstance(sandbox, Sandbox):
        return sandbox.shuts_off or bool(sandbox.read or sandbox.write or sandbox.memory)
    given = sandbox if isinstance(sandbox, Mapping) else {"kind": sandbox}
    return given.get("kind") in {"bwrap", "docker", "podman"} or any(
        value for name, value in given.items() if name != "kind"
    )


def contained(sandbox: Sandbox, **local: object) -> Sandbox:
    """Return a sandbox; refuse what can't be had in a container.

    Parameters
    ----------
    local
        `kernel_name`, `insurance` and `preload`, which are of kernels that are processes of this machine.
    """
    if sandbox.is_container and (wanted := [name for name, value in local.items() if value]):
        what = f"can't be had in a container: leave it out, or sandbox={sandbox.kind!r}."
        option = f"--{wanted[0]} can't be had in a container: leave it out, or --sandbox {sandbox.kind}."
        raise ConfigurationError(f"{wanted[0]} {what}", notebook=option, command=option)
    return sandbox


def modules_of(preload: object) -> tuple[str, ...]:
    """Check the names of the modules that a template imports."""
    names = tuple(preload) if isinstance(preload, list | tuple) else (None,)
    if not all(isinstance(name, str) and all(part.isidentifier() for part in name.split(".")) for name in names):
        raise ConfigurationError(f'preload is a list of names of modules, as ["pandas"], not {quoted(preload)}.')
    return names


def check_attempts(samples: object, require_agreement: object, strategy: object, limits: Limits) -> None:
    """Refuse samples, agreement and a strategy that do not go together."""
    if type(samples) is not int or samples < 1:
        raise ConfigurationError(f"samples is a whole number from 1 on, not {quoted(samples)}.")
    if samples > limits.max_kernels:
        raise ConfigurationError(
            f"samples={samples}, but there may be {limits.max_kernels} kernels at once: raise Limits(max_kernels=…)."
        )
    if not isinstance(require_agreement, bool):
        raise ConfigurationError(f"require_agreement is True or False, not {quoted(require_agreement)}.")
    if require_agreement and samples < 2:
        raise ConfigurationError("require_agreement is about several samples: set samples, to 3 for instance.")
    if strategy not in get_args(Strategy):
        raise ConfigurationError(f"strategy is {' or '.join(get_args(Strategy))}, not {quoted(strategy)}.")


def check_figures(see_figures: object) -> None:
    """Refuse what is none of the ways in which a model may see figures."""
    if see_figures not in get_args(SeeFigures):
        raise ConfigurationError(f"see_figures is {', '.join(get_args(SeeFigures))}, not {quoted(see_figures)}.")


def check_models(routing: Routing, limits: Limits, samples: int) -> None:
    """Refuse a limit in dollars without prices, and samples of a model that always says the same."""
    if samples > 1 and (why := fixed(routing.root)):
        raise ConfigurationError(f"samples={samples} would be the same run {samples} times: {why}.")
    if limits.max_cost is not None and (model := routing.unpriced):
        example = f"{{{model!r}: (0.25, 2.0)}}"

        def unpriced(cost: str, price: str, tokens: str) -> str:
            return (
                f"{cost} is set, but the price of {model} is not known: give it, as in {price} (US dollars for a "
                f"million tokens, in and out), or set {tokens}.{did_you_mean(priced_model_meant(model))}"
            )

        raise ConfigurationError(
            unpriced("max_cost", f"prices={example}", "max_tokens"),
            notebook=unpriced("--max-cost", f"%config RLMMagics.prices = {example}", "--max-tokens"),
            command=unpriced("--max-cost", f"--price {model}=0.25,2.0", "--max-tokens"),
        )
