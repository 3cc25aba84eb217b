"""What the loopback server is asked, and what it replies or does instead: the words of a test's script."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

PIECES = 3


@dataclass(frozen=True)
class Fault:
    """Something that a server does instead of replying."""

    code: int = 0
    body: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    drop: str = ""
    """`before`: no response at all; `early`: a stream without text; `middle`: after some text; `end`: the
    stream ends in good order, but without saying that the reply did; `error`: the error is sent inside; `stall`:
    after some text nothing more comes, and the connection stays open."""
    text: str = ""
    raw: Iterable[bytes] | None = None
    """Sent as the body, as it is, with status `code`; it may have no end."""

    @classmethod
    def sends(cls, *raw: bytes, code: int = 200, headers: dict[str, str] | None = None) -> Fault:
        """Whatever a server may send; by default as a stream of events."""
        return cls(code, headers={"content-type": "text/event-stream", **(headers or {})}, raw=raw)

    @classmethod
    def status(cls, code: int, message: str = "scripted failure", *, retry_after: float | None = None) -> Fault:
        """An HTTP error."""
        kinds = {
            401: "authentication_error",
            404: "not_found_error",
            429: "rate_limit_error",
            529: "overloaded_error",
        }
        error = {
            "message": message,
            "type": kinds.get(code, "api_error" if code >= 500 else "invalid_request_error"),
        }
        headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
        return cls(code, {"type": "error", "error": error}, headers)

    @classmethod
    def overflow(cls, tokens: int, window: int) -> Fault:
        """The prompt is too long, as llama.cpp says it."""
        error = {
            "code": 400,
            "message": f"request ({tokens} tokens) exceeds the available context size ({window} tokens)",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": tokens,
            "n_ctx": window,
        }
        return cls(400, {"error": error})

    @classmethod
    def dropped(cls, where: str, text: str = "The beginning of a reply that ") -> Fault:
        """The connection breaks off; `where` as in `drop`."""
        return cls(drop=where, text=text)


@dataclass(frozen=True)
class Said:
    """A reply with more to it than its text."""

    text: str
    finish: str = "stop"
    """In OpenAI's words: `stop`, `length`, `content_filter`."""
    input_tokens: int = 100
    """All that was read, cached tokens included."""
    output_tokens: int = 10
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    uncounted_thinking: int = 0
    """Tokens that only the total has (as at Gemini's endpoint)."""
    thinking: str = ""
    counted: bool = True
    """Whether usage is told at all (OpenAI's side only)."""
    logprobs: tuple[float, ...] = ()
    """Of the tokens, told where they are asked for (OpenAI's side only); one for each piece, in turn."""
    delay: float = 0.0
    """Seconds between pieces."""
    pieces: int = PIECES
    """In which it is streamed."""


Scripted = str | Said | Fault | Callable[[list[dict[str, str]]], "str | Said | Fault"]


@dataclass(frozen=True)
class Request:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def messages(self) -> list[dict[str, str]]:
        """Role and text, the system message first, whichever wire it came over."""
        system = self.body.get("system")
        first = [{"role": "system", "content": text_of(system)}] if system else []
        return first + [{"role": m["role"], "content": text_of(m["content"])} for m in self.body["messages"]]


def text_of(content: Any) -> str:
    """Return the text of a message's content, whole or in parts."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())
