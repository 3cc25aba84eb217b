"""What can't be a prompt, refused before anything is started."""

from __future__ import annotations

from rlm_jupyter.types.errors import ConfigurationError

MOST_PROMPT_CHARS = 10_000
"""Of a prompt without a context: four pages, more than any question has, and less than a text that needs a kernel."""


def check_length(prompt: str, instead: str = "assign the text to a variable and name that: %%rlm -c text") -> None:
    """Refuse a prompt without a context that is itself the text that a question should be about.

    Parameters
    ----------
    instead
        What to do in this notebook.

    Raises
    ------
    ConfigurationError
        It is longer than any question; the model would get all of it at once.
    """
    if len(prompt) <= MOST_PROMPT_CHARS:
        return
    long = f"The prompt has {len(prompt):,} characters, and there is no context"
    raise ConfigurationError(
        f"{long}. Did you mean completion(question, context=text), or completion(text, root_prompt=question)?",
        notebook=f"{long}: {instead}, with the question alone as the prompt.",
        command=f"{long}: put the text into a file and name that: QUESTION -c FILE.",
    )


def check_prompt(prompt: object) -> None:
    """Refuse what is no question, before anything is started.

    Raises
    ------
    ConfigurationError
        It is no `str`, or there is nothing in it.
    """
    if not isinstance(prompt, str):
        raise ConfigurationError(f"The prompt is a str, not {type(prompt).__name__}; data goes into context=.")
    if not prompt.strip():
        raise ConfigurationError("The prompt is empty: ask something.")
