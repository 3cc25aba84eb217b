"""`Item`: one row of a batch with the question that is asked about it; `RowQuestion`: what is asked about each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlm_jupyter.batch.asked import Asked
from rlm_jupyter.batch.prompt_template import (
    ContextColumn,
    MissingValueError,
    PromptTemplate,
    check_columns,
    listed,
    value_of,
)
from rlm_jupyter.batch.rows import BadRow
from rlm_jupyter.record.slug import slug
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.question import context_of
from rlm_jupyter.run.request_digest import request_digest
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError, ContextError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted

_KEY_CHARS = 12


@dataclass(frozen=True, slots=True)
class Item:
    """One row, ready to be asked about."""

    number: int
    """Its place in what was given, from 0."""
    key: str
    """Names it in the results."""
    identity: str
    """What it is recognized by: the same key, question and context give the same."""
    row: Mapping[str, Any]
    prompt: str = ""
    context: object = None
    error: str = ""
    """Why nothing can be asked about it."""

    @property
    def name(self) -> str:
        """What its run is called."""
        return self.key if self.identity.startswith(self.key) else f"{slug(self.key)}-{self.identity[:8]}"


class RowQuestion:
    """What is asked about each row.

    Parameters
    ----------
    prompt, context, key
        As for `RLM.batch`.

    Raises
    ------
    ConfigurationError
        A template can't be read, or is no text.
    """

    def __init__(self, prompt: str, context: str | None, key: str | None) -> None:
        _check_texts(prompt, context, key)
        self._prompt = PromptTemplate(prompt)
        self._context = None if context is None else ContextColumn(context)
        self._key = key

    def asked(self, settings: Settings) -> Asked:
        """Return all that results depend on but the rows; neither limits nor where the model is served count."""
        plain = replace(settings, limits=Limits(), served=(None, None))
        context = None if self._context is None else self._context.text
        asked = [request_digest(plain, self._prompt.text, Context(None)), self._key, context]
        return Asked(
            prompt=self._prompt.text,
            context=context,
            key=self._key,
            models=", ".join(model.name for model in settings.routing.models),
            answer="" if settings.answer is None else json.dumps(settings.answer.schema, sort_keys=True),
            digest=hashlib.sha256(json.dumps(asked).encode()).hexdigest(),
        )

    def items(self, rows: Sequence[Mapping[str, Any]], more: Sequence[str] = ()) -> list[Item]:
        """Return what is asked about the rows.

        Parameters
        ----------
        more
            Further columns that have to be there.

        Raises
        ------
        ConfigurationError
            No row can be read or has a column that is named, none is named by question or context, or two have one key.
        """
        if rows and all(isinstance(row, BadRow) for row in rows):
            raise ConfigurationError(f"No item can be read: {getattr(rows[0], 'why', '')}.")
        known = dict.fromkeys(str(name) for row in rows for name in row)
        columns = [*self._prompt.columns, *(self._context.columns if self._context else ())]
        check_columns([*columns, *more, *([self._key] if self._key else [])], known)
        if not columns:
            what = "Each row would be asked the same: name a column in the prompt, as "
            what, there = f"{what}{{{next(iter(known), 'text')}}}, or by", listed(known)
            raise ConfigurationError(f"{what} context; {there}.", command=f"{what} --context; {there}.")
        seen: dict[str, int] = {}
        items: list[Item] = []
        for number, row in enumerate(rows):
            item = self._item(number, row)
            times = seen[item.key] = seen.get(item.key, 0) + 1
            if times > 1 and self._key is not None:
                raise ConfigurationError(f"Two rows have {item.key!r} in their column {self._key!r}, which names them.")
            if times > 1:  # the same once more
                item = replace(item, key=f"{item.key}-{times}", identity=f"{item.identity}-{times}")
            items.append(item)
        return items

    def _item(self, number: int, row: Mapping[str, Any]) -> Item:
        prompt, context, error, named = "", None, getattr(row, "why", ""), ""
        try:
            if not isinstance(row, BadRow):
                named = str(value_of(row, self._key)) if self._key else ""
                prompt = self._prompt.fill(row)
                context = None if self._context is None else self._context.fill(row)
        except MissingValueError as missing:
            error = str(missing)
        identity = hashlib.sha256(json.dumps([named, prompt, _digest(context), error, error and number]).encode())
        return Item(
            number, named or identity.hexdigest()[:_KEY_CHARS], identity.hexdigest(), row, prompt, context, error
        )


def _check_texts(prompt: object, context: object, key: object) -> None:
    """Refuse what names no columns.

    Raises
    ------
    ConfigurationError
        It is no text, or there is no question.
    """
    if not isinstance(prompt, str) or not prompt.strip():
        given = "" if isinstance(prompt, str) else f", not {quoted(prompt)}"
        raise ConfigurationError(
            f"The question is missing: prompt is a text with names of columns, as 'Who is {{name}}?'{given}."
        )
    for name, column in (("context", context), ("key", key)):
        if column is not None and not isinstance(column, str):
            raise ConfigurationError(f"{name} is the name of a column, a text, not {quoted(column)}.")


def _digest(context: object) -> str:
    try:
        return json.dumps(context, sort_keys=True)
    except (TypeError, ValueError):
        pass
    if hasattr(context, "__fspath__"):
        return f"@{context}"
    try:
        return context_of(context).info.sha256
    except (ConfigurationError, ContextError):
        return f"a {type(context).__name__}"  # said when its turn comes
