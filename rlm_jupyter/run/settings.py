"""`Settings`: what a run is configured with, what of it is recorded, and its models made ready."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.models.endpoint import without_login
from rlm_jupyter.models.pricing import Price
from rlm_jupyter.models.routing import Routing
from rlm_jupyter.policies import RewardPolicy, SharedPolicy, TerminationPolicy
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.run.artefacts import Outputs
from rlm_jupyter.run.control import Control
from rlm_jupyter.run.figures import SeeFigures
from rlm_jupyter.run.mcp.config import ServerConfig
from rlm_jupyter.run.observers import guarded
from rlm_jupyter.run.toolbox import Toolbox
from rlm_jupyter.types.errors import RLMError
from rlm_jupyter.types.events import Event, RemarkMade
from rlm_jupyter.types.here import here
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.recorded_options import RecordedOptions

if TYPE_CHECKING:  # most kernels are on this machine
    from rlm_jupyter.kernel.remote.server import JupyterServer

Strategy = Literal["loop", "auto"]
"""`loop`: the model always works in a kernel; `auto`: where the whole text fits, it is first asked directly."""
LedgerOf = Literal["prompt", "session"]

COMPACT_AT = 0.8
"""The share of the window beyond which a conversation is compacted, where nothing else is said."""


_RECORDS: Mapping[str, bool] = {"is_recorded": True}
"""Of a field of plain data that is recorded, and that a resumed run has as before, where it is not the default."""
_COUNTS: Mapping[str, bool] = {"is_recorded": True, "may_change_answer": True}
"""… and that makes another question of the same words: it counts in `request_digest`."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a run is configured with, and its children inherit."""

    routing: Routing
    limits: Limits
    termination: SharedPolicy[TerminationPolicy]
    reward: SharedPolicy[RewardPolicy]
    save: str | Path | bool = True
    """Where the notebook goes: a path (a folder, where it ends with a slash), the default place, or nowhere."""
    kernel_name: str | None = None
    cwd: Path | None = None
    server: JupyterServer | None = None
    """The Jupyter server on which kernels are started; `None`: they are processes of this machine."""
    sandbox: Sandbox = field(default_factory=Sandbox)
    insurance: bool = field(default=False, metadata=_RECORDS)
    """Keep a sleeping fork of the kernel after each cell, which goes on with all variables if it dies."""
    preload: tuple[str, ...] = ()
    """Modules that are imported before kernels are forked."""
    warm: bool = True
    """Fork kernels from a process that has imported what they need, where that is possible."""
    prices: Mapping[str, Price] = field(default_factory=dict)
    """By the model's name, where they are not those of the list."""
    policies: dict[str, Any] = field(default_factory=dict)
    """How the policies were named, for the record."""
    served: tuple[str | None, int | None] = (None, None)
    """The address and the window that were given for the models, where they are not the usual ones."""
    model_options: Mapping[str, Any] = field(default_factory=dict)
    """Sampling options of the root's model."""
    sub_model_options: Mapping[str, Any] = field(default_factory=dict)
    """Sampling options of the sub-models."""
    samples: int = field(default=1, metadata=_COUNTS)
    """How many runs answer the question; the answer is the one that they agree on."""
    require_agreement: bool = field(default=False, metadata=_COUNTS)
    """Without agreement of the samples there is no answer."""
    strategy: Strategy = field(default="loop", metadata=_COUNTS)
    compact_at: float | None = field(default=COMPACT_AT, metadata=_COUNTS)
    """The share of the root model's window beyond which older iterations are summarized; `None`: never."""
    see_figures: SeeFigures = field(default="auto", metadata=_COUNTS)
    answer: AnswerType | None = None
    """The form that the answer to the first prompt must have; children and follow-ups have none."""
    outputs: Outputs | None = None
    """The files that the run is to make for the first prompt; children and follow-ups make none."""
    tools: Toolbox = field(default_factory=Toolbox)
    """Functions of the host that the root's cells may call."""
    sub_tools: Toolbox = field(default_factory=Toolbox)
    """Those that cells of its children may call."""
    mcp: tuple[ServerConfig, ...] = ()
    """Servers whose tools the root's cells may call; a session adds them to `tools`."""
    ledger: LedgerOf = "prompt"
    """What the limits of cost, tokens, time and calls hold for: each prompt to a kernel, or all of them together."""
    whole_limits: Limits | None = None
    """Of all prompts together, where `limits` are what those before have left."""
    session: str = ""
    """The name of the session that the prompts belong to, where it has one: another session asks anew."""
    system_prompt_extra: str = field(default="", metadata=_COUNTS)
    """A paragraph of the user's at the end of the system message, of children, too."""

    def chosen_sandbox(self) -> Sandbox:
        """Return what shuts kernels off; on a server, nothing of ours does."""
        return self.sandbox.chosen() if self.server is None else NO_SANDBOX

    @property
    def forks_kernels(self) -> bool:
        """Whether kernels are forked from a template: those on a server, or in containers, can't be."""
        return self.warm and self.server is None and not self.sandbox.is_container

    @property
    def sampling(self) -> dict[str, Any]:
        """The sampling options for the record, as far as there are any."""
        both = {"model_options": dict(self.model_options), "sub_model_options": dict(self.sub_model_options)}
        return {name: options for name, options in both.items() if options}


async def prepare(settings: Settings, emit: Callable[[Event], None] | None, control: Control | None = None) -> None:
    """See to it that the models' servers are ready.

    Parameters
    ----------
    control
        Ends the waiting for one that loads its model, as does `max_seconds`; `None`: the caller sees to that.

    Raises
    ------
    ModelError
        One's own server is not there, or has no such model.
    """
    emit = guarded(emit)
    stop, seconds = asyncio.Event(), None
    if control is not None:
        control.attach()
        stop, seconds = control.stopping, settings.limits.max_seconds
    failed: Exception | None = None
    try:
        await settings.routing.prepare(lambda text: emit(RemarkMade(text, passes=True)), stop, seconds)
    except ExceptionGroup as group:
        failed = group.exceptions[0]
    if failed is not None:
        raise failed  # out here, so that the group is not its context: IPython shows no such error in one line
    if stop.is_set():
        raise RLMError("the run was stopped before it began")
    remarks = {model.name: abilities_of(model).remark for model in settings.routing.models}
    for remark in filter(None, remarks.values()):
        emit(RemarkMade(remark))


async def refuse_absent(settings: Settings) -> None:
    """Refuse models before anything is shown or started; a server that loads its model is not waited for.

    Raises
    ------
    ModelError
        One's own server is not there, or has no such model.
    """
    is_loading = asyncio.Event()
    failed: Exception | None = None
    try:
        await settings.routing.prepare(lambda _: is_loading.set(), is_loading)
    except ExceptionGroup as group:
        failed = group.exceptions[0]
    if failed is not None:
        raise failed  # out here, as in `prepare`


_RECORDED = tuple(field for field in dataclasses.fields(Settings) if "is_recorded" in field.metadata)
RECORDED = tuple(field.name for field in _RECORDED)
"""The fields of plain data that a resumed run has as before."""


def changing_answers(settings: Settings) -> dict[str, Any]:
    """Return the plain data that makes another question of the same words, as far as it is not the default."""
    return _not_default(settings, (field for field in _RECORDED if "may_change_answer" in field.metadata))


def _not_default(settings: Settings, fields: Iterable[dataclasses.Field[Any]]) -> dict[str, Any]:
    values = {field.name: (getattr(settings, field.name), field.default) for field in fields}
    return {name: value for name, (value, default) in values.items() if value != default}


def recorded_options(settings: Settings, sandbox: Sandbox, *, attached: bool) -> RecordedOptions:
    """Return what else it takes to resume the run, as far as it is not the default."""
    outputs, (address, window) = settings.outputs, settings.served
    options: RecordedOptions = {
        "kernel_name": settings.kernel_name or "",
        "cwd": str(here() / (settings.cwd or "")) if settings.server is None else "",
        "kernel_url": "" if settings.server is None else settings.server.url,
        "lent": attached,
        "termination": settings.policies.get("termination"),
        "reward": settings.policies.get("reward"),
        "preload": [*settings.preload],
        "answer": {} if settings.answer is None else settings.answer.schema,
        "answer_validators": settings.answer is not None and settings.answer.has_validators,
        "outputs": [] if outputs is None else outputs.specs,
        "output_dir": "" if outputs is None else str(outputs.folder.path),
        "tools": settings.tools.specs,
        "sub_tools": settings.sub_tools.specs,
        "mcp": [server.name for server in settings.mcp],
        "model_options": dict(settings.model_options),
        "sub_model_options": dict(settings.sub_model_options),
        "sandbox": {} if attached or settings.server is not None else sandbox.asked(),
        "session": settings.session,
        "base_url": without_login(str(address or "")),
        "window": int(window or 0),
        "sub_models": [model.name for model in settings.routing.sub] if len(settings.routing.sub) > 1 else [],
        "prices": {name: [*dataclasses.astuple(price)] for name, price in settings.prices.items()},
    }
    if settings.ledger != "prompt":
        options["ledger"] = settings.ledger
    found = _not_default(settings, _RECORDED)
    if "compact_at" in found:
        found["compact_at"] = settings.compact_at or 0.0  # never; a name without a value would be the default
    return cast("RecordedOptions", as_far_as_given(options) | found)


def as_far_as_given(options: RecordedOptions) -> RecordedOptions:
    """Return options without those that are empty, which have their default."""
    return cast("RecordedOptions", {name: value for name, value in options.items() if value})
