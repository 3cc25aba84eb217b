"""The parts of a run's state. Each is assigned where its docstring says, and in `replay/` while a record is played."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.policies import RewardPolicy, TerminationPolicy
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.run.artefacts import Outputs
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.held_back import HeldBack
from rlm_jupyter.run.conversation import Conversation
from rlm_jupyter.run.early_cell import EarlyCell
from rlm_jupyter.run.history import History
from rlm_jupyter.types.values import CellPosition, OutputFile, Value, Variable


@dataclass(frozen=True, slots=True)
class UndoPoint:
    """How the run stood before the cell that was executed last; the kernel has kept a fork from then."""

    cell: CellPosition
    """What is undone by going back to it."""
    draft: Value | None
    sent_back: Value | None
    confidence: float | None


@dataclass
class CellState:
    """The kernel, and what its cells came to.

    Assigned in `run/cells.py`; in `run/undo.py`, where a cell is undone; by a player while it re-executes them.
    """

    kernel: Kernel
    history: History = field(default_factory=History)
    """Earlier prompts and answers in this kernel."""
    variables: tuple[Variable, ...] = ()
    """In the kernel after the last cell."""
    block: int = 0
    """The next cell's place in its iteration, from 0."""
    restarts: int = 0
    """How often the kernel was restarted."""
    draft: Value | None = None
    """What stood in `answer["content"]` after the last cell: kept here, where no dying kernel takes it along."""
    sent_back: Value | None = None
    """An answer that a policy sent back, or that the model is to confirm: the best there is, until another comes."""
    confidence: float | None = None
    """What the model stated last, from 0 to 1."""
    early: EarlyCell | None = None
    """The first cell of the reply that arrives, where it is executed already. Assigned in `run/arriving.py`, too."""
    undo_point: UndoPoint | None = None
    """Where a person can have the last cell undone."""
    no_undo: str = ""
    """Why that can't be undone, as the end of a sentence; empty where it can, and where nobody would be asked."""
    rendered: str = ""
    """The outputs of the last iteration, whole, as text."""

    def begin(self) -> None:
        """Begin an iteration."""
        self.block = 0


@dataclass
class ReplyState:
    """What replies have been questioned for.

    Assigned in `iteration`, `reply_checks`, `judge`, `loop` and `output_files`.
    """

    ready_declared: bool = False
    """A cell has set `answer["ready"]` by a literal."""
    ready_asked: bool = False
    """The model was told that `ready` counts only where a cell says it."""
    unconfirmed: str | None = None
    """The text of a FINAL of a literal, in prose or in code, that the model was asked to confirm."""
    blind_questioned: bool = False
    """An answer that was typed before any output was seen has been questioned."""
    echo_questioned: bool = False
    """An answer that was the question itself has been questioned."""
    iteration_of: dict[tuple[str, ...], int] = field(default_factory=dict)
    """The last iteration with such cells and such an answer."""
    answer_type: AnswerType | None = None
    """What the answer must be."""
    outputs: Outputs | None = None
    """The files that are to be there with it."""
    answer_errors: int = 0
    """Answers that were something else, or came without the files."""
    accepted: Mapping[str, bytes] = field(default_factory=dict)
    """Their contents, as the answer was accepted with them."""
    wrong_files: list[str] = field(default_factory=list)
    """What was wrong with files when an answer was last declared, or as the run ended; a line each, for people."""
    files_take_long: bool = False
    """The time was up while they were looked at: that is not done again."""
    files: tuple[OutputFile, ...] = ()
    """Those that were put where they belong, as the run ended."""

    def withdraw(self) -> None:
        """Take note that an answer was sent back: it has to be declared again, with its files."""
        self.ready_declared = False
        self.accepted = {}


@dataclass
class SubcallTally:
    """The sub-calls of the running cell. `take` hands on what the model is to know.

    Assigned in `run/subcalls.py`, `subcall_records.py` and `tool_calls.py`.
    """

    ordinal: int = 0
    """The place of the next prompt in its cell."""
    refused: int = 0
    """Prompts that were refused."""
    batch_refusal: str = ""
    """Why a batch was refused: its items say so only where they are printed."""
    cut: int = 0
    """Replies that ended at their cap."""
    repeated: int = 0
    """Prompts that were answered without being sent again."""
    unseen: str = ""
    """The model that was only told of images, since it sees none."""
    known_answers: dict[tuple[str, str], str] = field(default_factory=dict)
    """By the prompt's SHA-256 and the model, where the model always gives the same; for the whole run."""
    known_refusals: dict[tuple[str, str], str] = field(default_factory=dict)
    """Why the provider refused a prompt, by the same: unchanged, it would be refused again."""
    sees: dict[str, bool] = field(default_factory=dict)
    """Whether a model has taken an image, by its name, for the whole run; `False`: it said that it takes none."""
    refused_images: dict[str, str] = field(default_factory=dict)
    """What it said then."""
    first_look: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the first image is sent to a model of which nobody knows whether it sees."""

    source: str = ""
    """Of the running cell."""
    is_questioned: bool = False
    """A prompt was not sent because it had no passage in it; for the whole run."""

    def begin(self, source: str = "") -> None:
        """Begin a cell."""
        self.ordinal = self.refused = 0
        self.source = source

    def take(self) -> tuple[str, int, int, str]:
        """Return why a batch was refused, how many replies were cut, how many repeated, who saw no image; forget it."""
        taken = self.batch_refusal, self.cut, self.repeated, self.unseen
        self.batch_refusal, self.cut, self.repeated, self.unseen = "", 0, 0, ""
        return taken


@dataclass
class RequestState:
    """How large the next request to the root model may be.

    Assigned in `run/root_model.py`, `elision.py` and `compaction.py`.
    """

    held_back: HeldBack
    """Room of the limits that is held back for the run's last reply."""
    reply_cap: int
    """The cap of the next reply, in tokens."""
    compact_at: float | None = None
    """The share of the window beyond which the conversation is compacted; `None`: it never is."""
    conversation: Conversation = field(default_factory=Conversation)
    last_read: tuple[int, int] | None = None
    """Messages and tokens of the last request, its reply included, as the provider counted."""
    density: float = 1.0
    """Tokens that the provider counts for each that we estimate, at the most so far; no less than one."""
    lost: Bill = field(default_factory=Bill)
    """What was billed for replies of the root model that never came whole: no record of its own has it."""
    token_confidence: float | None = None
    """What the last reply's tokens say, where log-probabilities are asked for and given."""


@dataclass
class PolicyState:
    """The policies, and what they are given. Assigned in `run/judge.py`."""

    termination: TerminationPolicy
    reward: RewardPolicy
    threads: list[threading.Thread] = field(default_factory=list)
    """In which policies are at work."""
    total_reward: float = 0.0
    steps: list[dict[str, Any]] = field(default_factory=list)
    """A line for each iteration that was rated: what policies are given as `history`."""
