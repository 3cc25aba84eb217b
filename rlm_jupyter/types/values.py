"""The values that the parts hand to each other: frozen, without behaviour of their own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypedDict

from rlm_jupyter.types.images import Image

Role = Literal["system", "user", "assistant"]
FinishReason = Literal["stop", "length", "refusal", "broken_off", "other"]
"""Why a reply ended. `broken_off`: its request failed, or was stopped, when its first cell had begun already; it ends
with that cell's block."""
CellStatus = Literal["ok", "error", "interrupted", "died", "skipped"]
SubcallKind = Literal["llm", "rlm", "tool"]
CellPosition = tuple[int, int]
"""A cell of a run: its iteration, and its block in that."""
CallKind = Literal["llm", "rlm", "tool", "trajectory"]
"""What a cell may ask of the host; `trajectory`: for the iterations before it, which the host has."""
StopReason = Literal[
    "answered",
    "terminated",
    "iterations",
    "errors",
    "tokens",
    "cost",
    "seconds",
    "subcalls",
    "context_window",
    "no_progress",
    "cancelled",
    "kernel_died",
    "no_agreement",
    "answer_invalid",
    "failed",
]
"""Why a run ended: `answered` (FINAL or one of its kin), `terminated` (a termination policy), the name of
the limit that was reached, or what broke it."""


class OutputFile(TypedDict):
    """A file that a run has made."""

    name: str
    sha256: str
    """Of its content, in hexadecimal."""
    nbytes: int
    path: str
    """Where it was put; empty: that place has refused it."""


Output = dict[str, Any]
"""One output as nbformat 4 writes it: `stream`, `display_data`, `execute_result` or `error`."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the conversation that a model reads."""

    role: Role
    content: str
    """Its text; for a model that sees no images all of it."""
    parts: tuple[str | Image, ...] = ()
    """What is sent instead where there are images, in order: texts and images."""
    image_tokens: int = 0
    """How many tokens its images take at most, as the model counts that reads it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one request, or of several added up."""

    input_tokens: int = 0
    """All that was read, cached tokens included."""
    output_tokens: int = 0
    """All that was written, reasoning tokens included."""
    cached_tokens: int = 0
    """Of the input: read from the provider's cache."""
    cache_write_tokens: int = 0
    """Of the input: written to the provider's cache, where that is billed apart."""
    reasoning_tokens: int = 0
    """Of the output: thinking that nobody sees."""

    @property
    def total_tokens(self) -> int:
        """Input and output together."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model sent back."""

    text: str
    """The visible text as received, without thinking; the root's may have its last block closed."""
    model: str
    """The model that answered, as the provider names it."""
    usage: Usage = Usage()
    finish: FinishReason = "stop"
    token_confidence: float | None = None
    """The geometric mean of the tokens' probabilities, from 0 to 1, where it was asked for and is told."""
    estimated: bool = False
    """`usage` is our own estimate: the provider tells none, or the request was closed before it did."""


@dataclass(frozen=True, slots=True)
class Subcall:
    """One call out of a cell: `llm_query`, `rlm_query`, their batched forms, or a tool (`types.call_text`), by name.

    Of `trajectory` the one prompt is the number of iterations that the kernel has already.
    """

    id: str
    kind: CallKind
    prompts: tuple[str, ...]
    """A `Prompt` where it has images."""
    model: str | None
    cell: str
    """The id of the execute request that was running; best effort (a stray thread counts for the running one)."""
    schema: dict[str, Any] | None = None
    """The JSON schema that replies are to keep, for a provider that can see to it."""
    execution: int = 0
    """How many cells the host had begun in that kernel."""
    contexts: tuple[PacksContext | None, ...] = ()
    """Which of the prompts are contexts that the kernel was given, by place; empty: none is."""


@dataclass(frozen=True, slots=True)
class SubcallFailure:
    """A sub-call that gave no answer, with the reason that the cell is shown."""

    reason: str


AnswerSubcall = Callable[[Subcall], Awaitable[list[str | SubcallFailure]]]
"""Answers a sub-call: one text or failure for each prompt, in order. Given to the kernel by the run."""


@dataclass(frozen=True, slots=True)
class Value:
    """A kernel variable, or a declared answer, brought to the host whole."""

    text: str
    json: Any = None
    """The same as plain data, where it is JSON-able (then `is_json`)."""
    is_json: bool = False
    type_name: str = "str"
    declared: str | None = None
    """Of an answer that its type writes in another way: as the model declared it."""
    nearest: Any = None
    """The plain data that comes closest, where it is not JSON-able: a tuple's list, an object's fields."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A line of `SHOW_VARS()`: what stands in the kernel's namespace, described without running its code."""

    name: str
    type_name: str
    size: str = ""
    """Length or shape, such as `1,204` or `(300, 4)`; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the kernel says of itself after a cell."""

    answer_state: Literal["none", "declared", "refused"] = "none"
    """Whether FINAL declared a value; `refused`: it was called with one that can't become text."""
    problem: str = ""
    """With `refused`: what was wrong, as shown to the model."""
    draft_ready: bool = False
    """`answer["ready"]` is `True`."""
    draft: bool = False
    """`answer["content"]` holds something: a draft that `Kernel.get("answer")` brings."""
    restored: tuple[str, ...] = ()
    """Names of ours that the model had overwritten and that were put back before the cell."""
    notices: tuple[str, ...] = ()
    """What else the model should be told, such as a second FINAL that did not count."""
    exited: bool = False
    """The cell ended where it called `exit()`, without an error."""
    variables: tuple[Variable, ...] = ()
    confidence: float | None = None
    """From 0 to 1: what the answer was given with, `FINAL(x, confidence=0.9)`, else the variable `confidence`."""


@dataclass(frozen=True, slots=True)
class CellRun:
    """What came of executing one cell."""

    status: CellStatus
    outputs: tuple[Output, ...] = ()
    execution_count: int | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What one model used in a run, as root, for sub-calls and in children together."""

    requests: int
    usage: Usage
    cost: float | None
    """US dollars; `None` when its price is not known."""


@dataclass(frozen=True, slots=True)
class ContextInfo:
    """What the model is told of `context`, and how it is found again."""

    type_name: str
    """Such as `str`, `list`, `DataFrame`; `none` when there is no context."""
    size: str
    """For people and the model, such as `1,048,576 characters` or `20,000 items`."""
    details: tuple[str, ...] = ()
    """Further lines: sizes of the parts, columns, keys."""
    beginning: str = ""
    """How it begins (`rlm_jupyter.prompts.preview`); empty where there is nothing to show."""
    sha256: str = ""
    """Of the bytes that are handed to the kernel; empty when there is no context."""
    nbytes: int = 0


@dataclass(frozen=True, slots=True)
class PackedContext:
    """A context as bytes: ready for a kernel's wire and for the store."""

    kind: Literal["none", "str", "bytes", "pickle"]
    buffers: tuple[bytes | memoryview, ...] = field(default=(), repr=False)
    """`str`: its UTF-8 (`surrogatepass`); `bytes`: as is; `pickle`: the stream, then its out-of-band buffers."""
    info: ContextInfo = ContextInfo("none", "empty")

    @property
    def nbytes(self) -> int:
        """How many bytes it has."""
        return sum(memoryview(buffer).nbytes for buffer in self.buffers)

    is_described = True  # `PacksContext`

    def packed(self) -> PackedContext:
        """Return itself (`PacksContext`)."""
        return self

    def text(self) -> str | None:
        """Return the text, where it is one."""
        return str(self.buffers[0], "utf-8", "surrogatepass") if self.kind == "str" else None


class PacksContext(Protocol):
    """Gives a context's bytes whenever they are asked for, so that nobody has to keep them."""

    @property
    def kind(self) -> Literal["none", "str", "bytes", "pickle"]:
        """How it is packed."""
        ...

    @property
    def buffers(self) -> tuple[bytes | memoryview, ...]:
        """Its bytes, as in `PackedContext`; there before `info` is."""
        ...

    @property
    def nbytes(self) -> int:
        """How many bytes it has; known before `info` is."""
        ...

    @property
    def info(self) -> ContextInfo:
        """What it is, and how it is found again; a large text may have to be read through first."""
        ...

    @property
    def is_described(self) -> bool:
        """Whether `info` is there."""
        ...

    def text(self) -> str | None:
        """Return the text, where it is one; else `None`."""
        ...

    def packed(self) -> PackedContext:
        """Return the context as bytes."""
        ...


def is_same(one: PacksContext, other: PacksContext) -> bool:
    """Return whether two contexts have the same bytes; those of different lengths are not read for that."""
    if one is other:
        return True
    return one.kind == other.kind and one.nbytes == other.nbytes and one.info.sha256 == other.info.sha256
