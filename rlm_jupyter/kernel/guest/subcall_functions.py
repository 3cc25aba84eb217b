"""`functions`: `llm_query` and its seven relatives, as the model's code sees them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from rlm_jupyter.kernel.guest.prompt_parts import is_image, prompt_of
from rlm_jupyter.kernel.guest.reply_types import ReplyType
from rlm_jupyter.kernel.guest.subcall_client import Answers, SubcallError, SubcallFailure
from rlm_jupyter.types.quoted import quoted

_MODEL = re.compile(r"[^\s/]+/\S+")
_MODEL_CHARS = 200
_SHOWN_CHARS = 60
"""Of a prompt, in an example."""


class MakesCalls(Protocol):
    """Answers calls: by asking the host, or from a record."""

    def call(
        self, kind: str, prompts: Sequence[str], model: str | None, schema: Mapping[str, Any] | None = None
    ) -> Answers:
        """Ask and wait; `schema` is the JSON schema that replies are to keep."""
        ...

    async def acall(
        self, kind: str, prompts: Sequence[str], model: str | None, schema: Mapping[str, Any] | None = None
    ) -> Answers:
        """Ask and await."""
        ...


def functions(calls: MakesCalls) -> dict[str, Any]:
    """Return the sub-call functions that the model sees, by name."""

    def llm_query(prompt: Any, model: str | None = None, *, answer: Any = None) -> Any:
        """Ask a language model one question about the text in `prompt`; returns its reply.

        A list is a prompt of texts and images: `llm_query(["What does it show?", image])`.
        With a type, such as `answer=list[str]`, the reply is checked, and a value of that type. Raises SubcallError
        when there is no reply, or one of another form twice. For many prompts use llm_query_batched: they run at once.
        """
        return _one(_ask(calls, "llm", [_text(prompt, "llm_query", model)], model, answer, "llm_query"))

    def llm_query_batched(prompts: Sequence[Any], model: str | None = None, *, answer: Any = None) -> list[Any]:
        """Ask a language model many questions at once; returns the replies in order, with `answer` values of that type.

        A prompt is a text, or a list of texts and images, as for llm_query.
        An item that failed is a falsy SubcallFailure in its place; str() of it says why.
        """
        name = "llm_query_batched"
        return _ask(calls, "llm", _texts(prompts, name, model), model, answer, name)

    def rlm_query(prompt: str, model: str | None = None, *, answer: Any = None) -> Any:
        """Hand a sub-problem to a recursive model with a kernel of its own, where `prompt` is its context."""
        return _one(_ask(calls, "rlm", [_text(prompt, "rlm_query", model)], model, answer, "rlm_query"))

    def rlm_query_batched(prompts: Sequence[str], model: str | None = None, *, answer: Any = None) -> list[Any]:
        """Hand many sub-problems to recursive models at once; returns their answers in order."""
        name = "rlm_query_batched"
        return _ask(calls, "rlm", _texts(prompts, name, model), model, answer, name)

    async def allm_query(prompt: Any, model: str | None = None, *, answer: Any = None) -> Any:
        """`llm_query`, to be awaited."""
        return _one(await _aask(calls, "llm", [_text(prompt, "allm_query", model)], model, answer, "allm_query"))

    async def allm_query_batched(prompts: Sequence[Any], model: str | None = None, *, answer: Any = None) -> list[Any]:
        """`llm_query_batched`, to be awaited."""
        name = "allm_query_batched"
        return await _aask(calls, "llm", _texts(prompts, name, model), model, answer, name)

    async def arlm_query(prompt: str, model: str | None = None, *, answer: Any = None) -> Any:
        """`rlm_query`, to be awaited."""
        return _one(await _aask(calls, "rlm", [_text(prompt, "arlm_query", model)], model, answer, "arlm_query"))

    async def arlm_query_batched(prompts: Sequence[str], model: str | None = None, *, answer: Any = None) -> list[Any]:
        """`rlm_query_batched`, to be awaited."""
        name = "arlm_query_batched"
        return await _aask(calls, "rlm", _texts(prompts, name, model), model, answer, name)

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
    for function in found:  # what Python calls it in an error of its arguments
        function.__qualname__ = function.__name__
    return {function.__name__: function for function in found}


def _ask(calls: MakesCalls, kind: str, prompts: list[str], model: str | None, answer: Any, name: str) -> list[Any]:
    """Ask, once more where a reply has another form, and return the replies, or the values."""
    if not prompts or answer is None:
        return list(calls.call(kind, prompts, model)) if prompts else []
    reply_type = ReplyType(answer, name)
    settling = reply_type.settle(prompts)
    asked = next(settling)
    while True:
        try:
            asked = settling.send(calls.call(kind, asked, model, reply_type.sent))
        except StopIteration as settled:
            return settled.value


async def _aask(
    calls: MakesCalls, kind: str, prompts: list[str], model: str | None, answer: Any, name: str
) -> list[Any]:
    """`_ask`, to be awaited."""
    if not prompts or answer is None:
        return list(await calls.acall(kind, prompts, model)) if prompts else []
    reply_type = ReplyType(answer, name)
    settling = reply_type.settle(prompts)
    asked = next(settling)
    while True:
        answers = await calls.acall(kind, asked, model, reply_type.sent)
        try:
            asked = settling.send(answers)
        except StopIteration as settled:
            return settled.value


def _one(answers: list[Any]) -> Any:
    answer = answers[0]
    if isinstance(answer, SubcallFailure):
        raise SubcallError(answer.reason)
    return answer


def _text(prompt: object, name: str, model: object) -> str:
    _check_model(model, name, prompt)
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, list | tuple):
        if all(isinstance(part, str) for part in prompt):
            raise TypeError(
                f"{name} takes one str; for a list of them use {name}_batched. No image is in it: a file is Path(…)."
            )
        return _with_images(prompt, name, name)
    if is_image(prompt):
        raise TypeError(f'{name} takes an image beside its question: {name}(["QUESTION", image]).')
    raise TypeError(f"{name} takes a str, not {type(prompt).__name__}: put the text itself into the prompt.")


def _texts(prompts: object, name: str, model: object) -> list[str]:
    _check_model(model, name, prompts)
    if isinstance(prompts, str):
        raise TypeError(f"{name} takes a list of str; for a single one use {name.removesuffix('_batched')}.")
    if not isinstance(prompts, Iterable) or isinstance(prompts, Mapping) or is_image(prompts):
        raise TypeError(f"{name} takes a list of str, not {type(prompts).__name__}.")
    texts = []
    for index, prompt in enumerate(prompts):
        if isinstance(prompt, str):
            texts.append(prompt)
        elif isinstance(prompt, list | tuple):
            texts.append(_with_images(prompt, f"{name}: item {index}", name))
        elif is_image(prompt):
            raise TypeError(f'{name}: item {index} is an image: put it beside its question, ["QUESTION", image].')
        else:
            raise TypeError(f"{name}: item {index} is {type(prompt).__name__}, not str.")
    return texts


def _with_images(parts: Sequence[object], where: str, name: str) -> str:
    """Return a list of texts and images as one prompt."""
    if "rlm" in name:
        raise TypeError(f'{where}: it takes a text; a model sees images by llm_query(["QUESTION", image]).')
    if all(isinstance(part, str) for part in parts):
        raise TypeError(f"{where} is a list without an image: join its texts to one str.")
    return prompt_of(parts, where)


def _check_model(model: object, name: str, prompt: object) -> None:
    """Refuse a text that was passed for a model's name, as in `llm_query("Summarize this", context)`."""
    if model is None or (isinstance(model, str) and len(model) <= _MODEL_CHARS and _MODEL.fullmatch(model)):
        return
    if is_image(model):
        raise TypeError(f'{name} takes an image in a list, beside its question: llm_query(["QUESTION", image]).')
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
