"""`configuration`: what a saved run is resumed, forked or replayed with: as it was recorded, with changes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from rlm_jupyter.record.saved_run import SavedRun, last_resumption
from rlm_jupyter.replay import recorded_address, recorded_kernel, recorded_outputs, recorded_tools
from rlm_jupyter.run.settings import RECORDED, Settings, recorded_options
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import RunResumed, RunStarted
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.recorded_options import RecordedOptions

_LIMITS = frozenset(Limits.__dataclass_fields__)
_AS_BEFORE = ("prices", "answer", *(name for name in RECORDED if name != "insurance"))
"""`insurance` is the kernel's: `recorded_kernel`."""
_CHANGEABLE = frozenset({"termination", "reward", "window", *_AS_BEFORE})
"""Recorded options that hold until a resumption changes them."""


@dataclass(frozen=True)
class Configuration:
    """What a saved run is resumed with: as it was recorded, with changes."""

    model: str
    options: dict[str, Any] = field(repr=False)
    """Of `RLM`; they may hold a key."""


def configuration(saved: SavedRun, changes: dict[str, Any], *, calls: bool = True) -> Configuration:
    """Return model and options of `RLM` for a saved run.

    Parameters
    ----------
    changes
        Options of `RLM` and fields of `Limits` to change; `None` changes nothing.
    calls
        Whether tools may be called: then those that the run had are among the changes.

    Raises
    ------
    ConfigurationError
        A change is not possible, or something can't be taken from the record and has to be given.
    """
    given = {name: value for name, value in changes.items() if value is not None}
    started = saved.trajectory.started
    check_whole(saved)
    last = last_resumption(saved.records) or started
    recorded = _recorded(started, last) if calls else started.options
    for name in ("termination", "reward"):
        if name not in given and (policy := recorded.get(name)) is not None:
            if isinstance(policy, dict) and "object" in policy:
                raise ConfigurationError(
                    f"The {name} policy of this run was an object of {policy['object']}, which is not in its record: "
                    f"give it again, {name}=…"
                )
            given[name] = policy
    if calls:
        recorded_address.check_given(recorded, given, started.model, last.model)
        recorded_tools.check_given(recorded, given)
        if recorded.get("answer_validators") and "answer" not in given:
            text = "The type of the answer has validators, functions that are in no record: give it again"
            elsewhere = f"{text}, in Python: RLM.resume(…, answer=…) or RLM.fork"
            raise ConfigurationError(f"{text}, answer=…", notebook=elsewhere, command=elsewhere)
    limits = saved.limits({name: given.pop(name) for name in list(given) if name in _LIMITS})
    options = {"sub_model": _sub_model(saved), **given, "limits": limits}
    options = recorded_kernel.options_of(recorded, given) | options
    for name in _AS_BEFORE:
        if name in recorded:
            options.setdefault(name, cast("dict[str, Any]", recorded)[name])
    options = recorded_outputs.given_again(saved, given if calls else None) | options
    model = options.pop("model", last.model)
    # what was set for a model is not sent to another, which may refuse it
    sampling = last.options if isinstance(last, RunStarted) else last.sampling
    if model == last.model:
        options.setdefault("model_options", sampling.get("model_options"))
        options.setdefault("window", recorded.get("window"))
    if "sub_model" not in given and (options["sub_model"] is not None or model == last.model):
        options.setdefault("sub_model_options", sampling.get("sub_model_options"))
    return Configuration(model, options)


def _recorded(first: RunStarted, last: RunStarted | RunResumed) -> RecordedOptions:
    """Return the options as they were at last: those that a resumption may have changed stand in its record, too."""
    changed = last.options
    if changed is None:  # an earlier version kept none
        changed = first.options if last.model == first.model else {**first.options, "window": None}
    kept = {name: value for name, value in first.options.items() if name not in _CHANGEABLE}
    return cast("RecordedOptions", kept | {name: value for name, value in changed.items() if name in _CHANGEABLE})


def _sub_model(saved: SavedRun) -> str | list[str] | None:
    """Return it as it was last: one for each depth, where there were several; `None`: that of the root."""
    resumed, started = last_resumption(saved.records), saved.trajectory.started
    several = started.options.get("sub_models", []) if resumed is None else resumed.sub_models
    last = resumed or started
    return list(several) or (last.sub_model if last.sub_model != last.model else None)


def changeable(settings: Settings) -> dict[str, Any]:
    """Return what the record of a resumption says of its settings, for the next one."""
    now = recorded_options(settings, settings.sandbox, attached=False)
    return {name: value for name, value in now.items() if name in _CHANGEABLE}


def check_whole(saved: SavedRun) -> None:
    """Refuse what is a run only together with something else."""
    started = saved.trajectory.started
    if started.options.get("lent"):
        raise ConfigurationError(
            "This run drove the kernel of a notebook (--here), whose variables are not in its record: it can be read, "
            "but not resumed. Ask again with %%rlm --here."
        )
    if started.parent:
        raise ConfigurationError(f"This run answers a sub-call of {started.parent}: resume that one.")
