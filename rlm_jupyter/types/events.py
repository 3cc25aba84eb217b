"""What happened in a run, as past facts.

*Records* are lasting: each is one line of the journal, the trajectory is their fold, and a run can be
rebuilt from them alone. *Glimpses* pass: they let people watch and are never stored. `RLM.stream` yields
both, in order.

A child (`rlm_query`, or a sample) is a run with a record of its own. Whoever watches the root sees what happens in it
as `ChildReported`: a glimpse that carries the child's own event, so that nobody takes it for one of the root's.

Long because each kind of event is described here, and nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rlm_jupyter.types.images import Image
from rlm_jupyter.types.recorded_options import RecordedOptions
from rlm_jupyter.types.values import (
    CellPosition,
    CellStatus,
    ContextInfo,
    FinishReason,
    Output,
    OutputFile,
    StopReason,
    SubcallKind,
    Usage,
)


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run began. The first record of every journal."""

    run_id: str
    prompt: str
    system: str
    """The system message, so that the conversation can be derived from the record alone."""
    opening: str
    """The first user message."""
    context: ContextInfo
    model: str
    sub_model: str
    depth: int
    limits: dict[str, Any]
    started: str
    """ISO 8601, UTC, to the millisecond: of two runs of the same request the later one is the newest."""
    request: str = ""
    """Digest of all that was asked (prompt, context, models, options): the same again is the same run."""
    parent: str | None = None
    """The run whose `rlm_query` this run answers."""
    version: str = ""
    """Of this package."""
    options: RecordedOptions = field(default_factory=RecordedOptions)
    """What else it takes to resume the run: its policies, its kernel, its working directory."""
    forked_from: str | None = None
    """The run whose first iterations (`forked_at` of them) this run took over."""
    forked_at: int = 0

    @property
    def moment(self) -> str:
        """When it began, for people: `2026-01-02 03:04:05 UTC`."""
        return f"{self.started[:19].replace('T', ' ')} UTC"


@dataclass(frozen=True, slots=True)
class ReplyReceived:
    """The root model replied. Recorded before anything in it is executed."""

    iteration: int
    """From 1."""
    text: str
    """As received, byte for byte."""
    model: str
    usage: Usage
    cost: float | None
    """US dollars; `None` when the model's price is not known."""
    finish: FinishReason
    seconds: float
    read: int | None = None
    """How many characters of `text` count; the rest, where the model played the kernel, is neither run nor
    shown to it again. `None`: all."""
    rejected: str = ""
    """Why the reply was resampled instead of run (a repetition, say); it is then not part of the conversation."""
    forced: bool = False
    """The last reply of a run that met a limit: it was asked for, and no code of it is executed."""
    estimated: bool = False
    """`usage` and `cost` are our own estimate: the provider did not tell, or the request was closed before it did."""

    @property
    def unread(self) -> str:
        """What of the text does not count; empty for most."""
        return "" if self.read is None or self.rejected or self.forced else self.text[self.read :]


@dataclass(frozen=True, slots=True)
class SubcallSettled:
    """One prompt of a sub-call was answered, or failed."""

    iteration: int
    block: int
    kind: SubcallKind
    ordinal: int
    """The n-th prompt of its cell, from 0."""
    prompt_sha256: str
    prompt_chars: int
    prompt_head: str
    """The first thousand characters."""
    asked_model: str | None
    """What the cell named, if it did."""
    model: str
    text: str
    """The reply, or the reason for the failure."""
    failed: bool
    usage: Usage
    cost: float | None
    seconds: float
    child: str | None = None
    """The child run's id, for `rlm_query`."""
    prompt: str | None = None
    """The whole prompt, where it is longer than `prompt_head`. A run that is saved keeps it as an object, named by
    `prompt_sha256`, and `None` here: prompts are most of what a run sends."""
    refused: bool = False
    """Nobody was asked: a limit was reached, or there is no such model. It counts against no limit."""
    images: tuple[Image, ...] = ()
    """Of the prompt, in order. A run that is saved keeps their bytes as objects, and only describes them here."""


@dataclass(frozen=True, slots=True)
class SampleSettled:
    """One more run of the same question ended; the run itself is sample 1."""

    sample: int
    """From 2."""
    child: str
    """Its run id."""
    model: str
    stop_reason: StopReason
    answer: str | None
    value: Any
    is_json: bool
    confidence: float | None
    """What it stated, or what its last reply's tokens say, from 0 to 1."""
    usage: Usage
    cost: float | None
    seconds: float
    message: str = ""
    """As in `RunEnded`."""


@dataclass(frozen=True, slots=True)
class DirectReplied:
    """The model was given the whole text and asked at once, before the first iteration; this is one of its replies."""

    number: int
    """From 1."""
    text: str
    model: str
    usage: Usage
    cost: float | None
    seconds: float


@dataclass(frozen=True, slots=True)
class CellFinished:
    """A cell ended, or was passed over because one before it failed (`skipped`)."""

    iteration: int
    block: int
    """The n-th cell of its iteration, from 0."""
    source: str
    """As the model wrote it."""
    executed: str | None
    """What was executed, where that differs from `source`; it may be empty."""
    status: CellStatus
    outputs: tuple[Output, ...]
    execution_count: int | None
    seconds: float

    @property
    def code(self) -> str:
        """What was executed."""
        return self.source if self.executed is None else self.executed


NoticeKind = Literal[
    "",
    "died_between",
    "edited",
    "exited",
    "refused",
    "sent_back",
    "stopped",
    "wrong_files",
    "wrong_form",
]
"""What a notice says, where that is looked for: the kernel died between two cells, a person edited the cell, a cell
called `exit()`, a person refused the cell, a policy did not accept an answer, a person stopped the run in a cell, files
or the form of an answer are not as they were asked for; empty: anything else."""


@dataclass(frozen=True, slots=True)
class NoticeGiven:
    """The run told the model something of its own: what is left, why a FINAL did not count."""

    iteration: int
    text: str
    restored: dict[str, Any] = field(default_factory=dict)
    """Where the kernel died, and variables came back: their `names`, and the `iteration` and `block` of the cell after
    which they were as they are; iteration 0: before the first."""
    kind: NoticeKind = ""
    """Derived from the text where an earlier version wrote the record (`record.earlier_versions`)."""
    undoes: tuple[int, ...] = ()
    """Iteration and block of the cell that a person had undone; empty where it is about anything else."""


@dataclass(frozen=True, slots=True)
class OutputsShown:
    """What the model is shown of an iteration's outputs, cut to the limit. The conversation reads this."""

    iteration: int
    text: str
    images: tuple[Image, ...] = ()
    """The figures among them, where the model sees; a run that is saved keeps their bytes as objects."""


@dataclass(frozen=True, slots=True)
class IterationRated:
    """The reward policy rated an iteration."""

    iteration: int
    reward: float
    components: dict[str, float]
    """What the reward is the sum of, by name."""
    explanation: str = ""
    confidence: float | None = None
    """What the model stated, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class OutputsElided:
    """To fit the window, the outputs of iterations up to `through` are no longer shown to the model."""

    through: int


@dataclass(frozen=True, slots=True)
class ConversationCompacted:
    """To fit the window, iterations up to `through` are no longer shown to the model; a text stands in their place."""

    iteration: int
    """The last one before it."""
    through: int
    text: str
    """What the model is told in their place. The conversation reads this."""
    summary: str = ""
    """What the model has written of them, cut to its bound; empty: there is no summary."""
    summarized: int = 0
    """Up to which iteration `summary` tells; less than `through` where newer ones were left out without one."""
    model: str = ""
    """Who wrote it; empty: nobody was asked this time."""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    """US dollars; `None` when the model's price is not known."""
    seconds: float = 0.0
    rejected: str = ""
    """Why there is no summary, and nothing is changed; with `model`, what it replied instead, which was paid for."""


@dataclass(frozen=True, slots=True)
class RunResumed:
    """A saved run was resumed: it had been broken off, or had met a limit. What was recorded before stands."""

    iteration: int
    """The last one of which there is a record."""
    model: str
    sub_model: str
    limits: dict[str, Any]
    """From now on."""
    resumed: str
    """ISO 8601, UTC."""
    reexecuted: bool
    """Whether the cells were executed again; else the kernel was empty."""
    sub_models: list[str] = field(default_factory=list)
    """By depth, where there are several."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """The options of the models from now on: `model_options`, `sub_model_options`."""
    seconds: float = 0.0
    """What it had taken before."""
    options: dict[str, Any] | None = None
    """What else it is configured with from now on, as in `RunStarted.options`, as far as that may have changed; `None`
    where an earlier version has resumed it, which kept nothing of that."""


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The run is over. The last record, unless the run is resumed."""

    stop_reason: StopReason
    answer: str | None
    value: Any
    """The answer as plain data, where it is JSON-able."""
    is_json: bool
    iteration: int
    seconds: float
    usage: Usage
    """Root, sub-calls and children."""
    cost: float | None
    message: str = ""
    """In one line, why it ended, when that is not plain."""
    confidence: float | None = None
    """From 0 to 1: the share of the samples that agree; of a single run what the model stated, or its tokens say."""
    declared: str | None = None
    """The answer as the model declared it, where its type writes it in another way: what a replay comes to."""
    files: tuple[OutputFile, ...] = ()
    """Those that it was to make, and has made; a run that is saved keeps each as an object."""
    is_judged: bool = True
    """`False`: what judges its last iteration (a policy, a validator, the check of a file) has failed, or took too
    long. Where the run is resumed, that iteration is judged again before anything is asked."""


@dataclass(frozen=True, slots=True)
class ReplyStreamed:
    """A piece of a reply arrived."""

    iteration: int
    text: str


@dataclass(frozen=True, slots=True)
class CellStarted:
    """A cell is being executed."""

    iteration: int
    block: int
    source: str


@dataclass(frozen=True, slots=True)
class OutputChanged:
    """The running cell's outputs are now these (all of them)."""

    iteration: int
    block: int
    outputs: tuple[Output, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class SubcallStarted:
    """One prompt of a sub-call was handed to a model."""

    iteration: int
    block: int
    kind: SubcallKind
    ordinal: int
    prompt_chars: int
    prompt_head: str = ""
    """The first few hundred characters."""
    model: str = ""
    """Who is to answer it; empty for a child, which has its own."""


@dataclass(frozen=True, slots=True)
class CellProposed:
    """A cell waits for a person's approval."""

    iteration: int
    block: int
    source: str
    undoes: CellPosition | None = None
    """Iteration and block of the cell before, where a person can have it undone (`Control.undo`)."""
    no_undo: str = ""
    """Why the cell before can't be undone, as the end of a sentence; empty where it can, or there is none."""


@dataclass(frozen=True, slots=True)
class CellDecided:
    """A person has decided on the cell that waited."""

    iteration: int
    block: int
    runs: bool


@dataclass(frozen=True, slots=True)
class CallProposed:
    """A call of a tool waits for a person's approval."""

    iteration: int
    block: int
    ordinal: int
    tool: str
    call: str
    """As the cell has written it, shortened."""


@dataclass(frozen=True, slots=True)
class CallDecided:
    """A person has decided on the call that waited."""

    iteration: int
    block: int
    ordinal: int
    runs: bool


@dataclass(frozen=True, slots=True)
class RunPaused:
    """The run waits before the reply to this iteration, until a person lets it go on."""

    iteration: int


@dataclass(frozen=True, slots=True)
class RunUnpaused:
    """The run goes on."""

    iteration: int


@dataclass(frozen=True, slots=True)
class CellReplayed:
    """A recorded cell was gone over again; what it shows is as recorded."""

    iteration: int
    block: int
    executed: bool
    """It was executed; else its effect was replayed (a kernel restarted), or passed over (it had been interrupted)."""
    difference: str = ""
    """A unified diff of recorded and new outputs, where they differ in what counts."""


@dataclass(frozen=True, slots=True)
class ChildReported:
    """Something happened in a child, or in a child's child.

    Flat at every depth: `event` is never a `ChildReported` itself, and `parent` says whose child it is.
    """

    child: str
    """The child's run id."""
    parent: str
    """The run id of the run whose cell asked; `iteration`, `block` and `ordinal` are in that one. A sample's
    iteration and block are 0, and its ordinal is its number less one."""
    depth: int
    """Of the child: 1 for a child of the root."""
    iteration: int
    block: int
    ordinal: int
    event: Event
    path: Path | None = None
    """The child's notebook, where it is saved."""


@dataclass(frozen=True, slots=True)
class RemarkMade:
    """Something that people should know and the model need not: a server is waited for, another model answers."""

    text: str
    passes: bool = False
    """It holds only until the run begins."""


@dataclass(frozen=True, slots=True)
class RequestDelayed:
    """A request to a provider waits until it is sent again; of several, the one that waits for longest is told."""

    text: str
    """In one line, who is waited for, why and how long; empty: none waits any more."""


Record = (
    RunStarted
    | ReplyReceived
    | SubcallSettled
    | SampleSettled
    | DirectReplied
    | CellFinished
    | NoticeGiven
    | OutputsShown
    | IterationRated
    | OutputsElided
    | ConversationCompacted
    | RunResumed
    | RunEnded
)
Glimpse = (
    ReplyStreamed
    | CellStarted
    | OutputChanged
    | SubcallStarted
    | CellProposed
    | CellDecided
    | CallProposed
    | CallDecided
    | RunPaused
    | RunUnpaused
    | CellReplayed
    | RemarkMade
    | RequestDelayed
    | ChildReported
)
Event = Record | Glimpse
