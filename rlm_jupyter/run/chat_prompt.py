"""`question_of`: a prompt that is a list of chat messages, taken apart into its question and its context."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlm_jupyter.run.prompt import MOST_PROMPT_CHARS
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

Messages = Sequence[Mapping[str, Any]]
"""`[{"role": "user", "content": "…"}, …]`."""
ROLES = ("system", "developer", "user", "assistant", "tool")
_INSTRUCTIONS = {"system", "developer"}
LAST_MESSAGE = (
    "`context` is a conversation, a list of messages with `role` and `content`. Reply to its last message, as its "
    "system messages say."
)
"""What is asked where the last message is too long for a question: its text is a part of the context then."""


def question_of(messages: Messages, *, has_context: bool = False) -> tuple[str, list[dict[str, str]] | None]:
    """Take a list of chat messages apart.

    The last message is the question; what system (and developer) messages say stands above it. The messages before the
    last, as they are, are the context, if any of them is more than such an instruction. Where question and instructions
    have more than 10,000 characters, all messages are the context, and the question is to reply to the last.

    Parameters
    ----------
    has_context
        There is another context: then the list may have instructions and a question, and no more.

    Returns
    -------
    tuple
        The question, and the context; `None`: the list holds none.

    Raises
    ------
    ConfigurationError
        It is no such list; the text says where.
    """
    said = [_message(number, message) for number, message in enumerate(messages, 1)]
    if not said:
        raise ConfigurationError("The list of messages is empty: its last message is the question.")
    last = said[-1]
    if last["role"] != "user":
        raise ConfigurationError(f"The last message is the question, of the user; this one is of the {last['role']}.")
    instructions = [message["content"] for message in said if message["role"] in _INSTRUCTIONS]
    question = "\n\n".join([*instructions, last["content"]])
    has_turns = any(message["role"] not in _INSTRUCTIONS for message in said[:-1])
    if has_context:
        if has_turns:
            raise ConfigurationError(
                "With a context, a list of messages has a question, and system messages: the conversation before it "
                "would be a second context. Put it into a session: add_context(messages)."
            )
        return question, None
    if len(question) > MOST_PROMPT_CHARS:
        return LAST_MESSAGE, said
    return question, said[:-1] if has_turns else None


def is_messages(prompt: object) -> bool:
    """Return whether a prompt is meant as a list of chat messages."""
    return isinstance(prompt, list | tuple)


def _message(number: int, message: object) -> dict[str, str]:
    if not isinstance(message, Mapping) or "role" not in message:
        raise ConfigurationError(
            f'Message {number} is no message: a prompt is a text, or a list of {{"role": …, "content": …}}; data goes '
            "into context=."
        )
    role = message["role"]
    if role not in ROLES:
        raise ConfigurationError(f"Message {number} has the role {quoted(role)}; there are {', '.join(ROLES)}.")
    text = _text(number, message.get("content"))
    if not text.strip():
        raise ConfigurationError(f"Message {number}, of the {role}, has no content.")
    return {"role": str(role), "content": text}


def _text(number: int, content: object) -> str:
    """Return the content of a message, which the providers also take as a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    parts = content if isinstance(content, list | tuple) else [content]
    texts = []
    for part in parts:
        kind = part.get("type", "?") if isinstance(part, Mapping) else type(part).__name__
        if not isinstance(part, Mapping) or kind != "text" or not isinstance(part.get("text"), str):
            raise ConfigurationError(f"Message {number} holds {quoted(kind)}; a message of a prompt is text.")
        texts.append(part["text"])
    return "\n\n".join(texts)
