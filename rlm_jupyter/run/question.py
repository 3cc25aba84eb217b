"""`question_and_context`: what somebody asks, and about what, as the ways to start a run take it."""

from __future__ import annotations

from rlm_jupyter.models import Model
from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.run.chat_prompt import Messages, is_messages, question_of
from rlm_jupyter.run.context import AnyContext, Context
from rlm_jupyter.run.files.blank import EmptyContextError, is_blank
from rlm_jupyter.run.files.paths import read_paths
from rlm_jupyter.run.prompt import check_length, check_prompt
from rlm_jupyter.types.errors import ConfigurationError

Prompt = str | Messages
"""A question, or chat messages of which the last is the question (`chat_prompt.question_of`)."""


def question_and_context(prompt: Prompt, context: object, root_prompt: str | None = None) -> tuple[str, Context]:
    """Check the question, and read its context where that is a path.

    Parameters
    ----------
    prompt, context, root_prompt
        As for `RLM.completion`.

    Raises
    ------
    ConfigurationError
        There is no question, or the context can't be handed to a kernel.
    """
    if root_prompt is not None:
        if context is not None:
            raise ConfigurationError("With root_prompt, the first argument is the context: give no other.")
        prompt, context = root_prompt, prompt
    if is_messages(prompt):
        prompt, said = question_of(prompt, has_context=not is_none(context))  # type: ignore[arg-type]
        context = context if said is None else said
    check_prompt(prompt)
    held = context_of(context)
    if held.kind == "none":
        check_length(str(prompt))
    return str(prompt), held


def context_of(context: object) -> Context:
    """Return what a question is about, ready for a kernel; a path is read.

    Raises
    ------
    ConfigurationError
        It can't be handed to a kernel, there is nothing at that path, or nothing in it.
    """
    if isinstance(context, Context):  # a front end has made it already, of what its user named
        return context
    content = read_paths(context)
    if content is not None and is_blank(content):
        raise EmptyContextError(
            "The context is empty, there is nothing to read in it. To ask without one, leave it out."
        )
    return Context(content)


def check_readable(context: AnyContext, model: Model) -> None:
    """Refuse images where the model only picks passages of texts.

    Raises
    ------
    ConfigurationError
        It is such a one, and there is no text in the context.
    """
    if isinstance(context, Context) and context.has_no_text and abilities_of(model).answers_in_text:
        what = f"{model.name} picks passages of texts, and the context has images alone: name a model that sees"
        raise ConfigurationError(f"{what}.", notebook=f"{what} (-m).", command=f"{what} (-m).")


def is_none(context: object) -> bool:
    """Return whether there is no context."""
    return context is None or (isinstance(context, Context) and context.kind == "none")
