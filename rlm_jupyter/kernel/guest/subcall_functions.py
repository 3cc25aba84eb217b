"""`functions`: `llm_query` and its seven relatives, as the model's code sees them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rlm_jupyter.kernel.guest.subcalls import Answers, SubcallError, SubcallFailure
from rlm_jupyter.types.quoted import quoted

_MODEL = re.compile(r"[^\s/]+/\S+")
_MODEL_CHARS = 200
_SHOWN_CHARS = 60
"""Of a prompt, in an example."""


class MakesCalls(Protocol):
    """Answers calls: by asking the host, or from a record."""

    def call(self, kind: str, prompts: Sequence[str], model: str | None) -> Answers:
        """Ask and wait."""
        ...

    async def acall(self, kind: str, prompts: Sequence[str], model: str | None) -> Answers:
        """Ask and await."""
        ...


def functions(calls: MakesCalls) -> dict[str, Any]:
    """Return the sub-call functions that the model sees, by name."""

    def one(answers: Answers) -> str:
        answer = answers[0]
        if isinstance(answer, SubcallFailure):
            raise SubcallError(answer.reason)
        return answer

    def llm_query(prompt: str, model: str | None = None) -> str:
        """Ask a language model one question about the text in `prompt`; returns its reply.

        Raises SubcallError when there is no reply. For many prompts use llm_query_batched: they run at once.
        """
        return one(calls.call("llm", [_text(prompt, "llm_query", model)], model))

    def llm_query_batched(prompts: Sequence[str], model: str | None = None) -> Answers:
        """Ask a language model many questions at once; returns the replies in order.

        An item that failed is a falsy SubcallFailure in its place; str() of it says why.
        """
        texts = _texts(prompts, "llm_query_batched", model)
        return calls.call("llm", texts, model) if texts else []

    def rlm_query(prompt: str, model: str | None = None) -> str:
        """Hand a sub-problem to a recursive model with a kernel of its own, where `prompt` is its context."""
        return one(calls.call("rlm", [_text(prompt, "rlm_query", model)], model))

    def rlm_query_batched(prompts: Sequence[str], model: str | None = None) -> Answers:
        """Hand many sub-problems to recursive models at once; returns their answers in order."""
        texts = _texts(prompts, "rlm_query_batched", model)
        return calls.call("rlm", texts, model) if texts else []

    async def allm_query(prompt: str, model: str | None = None) -> str:
        """`llm_query`, to be awaited."""
        return one(await calls.acall("llm", [_text(prompt, "allm_query", model)], model))

    async def allm_query_batched(prompts: Sequence[str], model: str | None = None) -> Answers:
        """`llm_query_batched`, to be awaited."""
        texts = _texts(prompts, "allm_query_batched", model)
        return await calls.acall("llm", texts, model) if texts else []

    async def arlm_query(prompt: str, model: str | None = None) -> str:
        """`rlm_query`, to be awaited."""
        return one(await calls.acall("rlm", [_text(prompt, "arlm_query", model)], model))

    async def arlm_query_batched(prompts: Sequence[str], model: str | None = None) -> Answers:
        """`rlm_query_batched`, to be awaited."""
        texts = _texts(prompts, "arlm_query_batched", model)
        return await calls.acall("rlm", texts, model) if texts else []

    found = (
        llm_query,
        llm_query_batched,
        rlm_query,
        rlm_query_batched,
        allm_query,
        allm_query_batched,
        arlm_query,
        arlm_query_batched,
    )
    return {function.__name__: function for function in found}


def _text(prompt: object, name: str, model: object) -> str:
    _check_model(model, name, prompt)
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list | tuple):
        raise TypeError(f"{name} takes one str; for a list of them use {name}_batched.")
    raise TypeError(f"{name} takes a str, not {type(prompt).__name__}: put the text itself into the prompt.")


def _texts(prompts: object, name: str, model: object) -> list[str]:
    _check_model(model, name, prompts)
    if isinstance(prompts, str):
        raise TypeError(f"{name} takes a list of str; for a single one use {name.removesuffix('_batched')}.")
    if not isinstance(prompts, Iterable) or isinstance(prompts, Mapping):
        raise TypeError(f"{name} takes a list of str, not {type(prompts).__name__}.")
    texts = list(prompts)
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name}: item {i} is {type(text).__name__}, not str.")
    return texts


def _check_model(model: object, name: str, prompt: object) -> None:
    """Refuse a text that was passed for a model's name, as in `llm_query("Summarize this", context)`."""
    if model is None or (isinstance(model, str) and len(model) <= _MODEL_CHARS and _MODEL.fullmatch(model)):
        return
    is_short = isinstance(prompt, str) and len(prompt) <= _SHOWN_CHARS and not set(prompt) & set('"\\{}\n')
    question = prompt if is_short else "QUESTION"
    if name.endswith("_batched"):
        form = f'{name}([f"{question}\\n\\n{{passage}}" for passage in passages])'
    else:
        form = f'{name}(f"{question}\\n\\n{{passage}}")'
    raise TypeError(
        f"{name} takes the text as part of the prompt: {form}. Its second argument names a model, provider/model; "
        f"{quoted(model)} is none."
    )
