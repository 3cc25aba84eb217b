"""`ReplyType`: what the reply to a sub-call must be: asked for, read from the reply, and asked for once more."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from rlm_jupyter.kernel.guest.subcalls import Answers, SubcallFailure
from rlm_jupyter.types.json_form import form
from rlm_jupyter.types.json_schema import JsonSchema
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.shortened import shortened

_ASKED = "{prompt}\n\nReply with JSON alone, of this form:\n{form}"
_AGAIN = (
    "{asked}\n\nYou have replied\n<reply>\n{reply}\n</reply>\nThat has another form: {reason}. Reply again, with JSON "
    "alone."
)
_SHOWN_CHARS = 2_000
"""Of a reply that is shown to who gave it."""
_REASON_CHARS = 300
_FENCED = re.compile(r"\A\s*```[\w-]*\n(.*)\n\s*```\s*\Z", re.DOTALL)


class WrongFormError(ValueError):
    """A reply is something else; the text says what is wrong."""


class ReplyType:
    """What a reply must be.

    Parameters
    ----------
    wanted
        A type, such as `int`, `list[str]`, `Literal["yes", "no"]`, a dataclass, a pydantic model; or a JSON schema.
    name
        Of the function that was called, for errors.

    Raises
    ------
    TypeError
        It is no type, or one that JSON has no form for.
    """

    def __init__(self, wanted: Any, name: str) -> None:
        self._adapter: Any = None
        self._schema: dict[str, Any] = {}
        try:
            self._take(wanted)
        except ImportError as error:
            raise TypeError(f"{name}: answer=… needs {error.name}, which is not installed in this kernel.") from None
        except Exception as error:  # noqa: BLE001  types may be the model's own code
            reason = shortened(" ".join(str(error).split()), _REASON_CHARS)
            raise TypeError(
                f"{name}: answer={quoted(wanted)} is no type that JSON has a form for, such as int, list[str] or a "
                f"dataclass: {reason}"
            ) from None
        self._form = form(self._schema)

    def settle(self, prompts: Sequence[str]) -> Generator[list[str], Answers, list[Any]]:
        """Yield what is to be asked, and take what came; return the values, with failures in their places.

        A reply of another form is asked for once more.
        """
        asked = [_ASKED.format(prompt=prompt, form=self._form) for prompt in prompts]
        answers = yield asked
        values: list[Any] = list(answers)
        wrong: dict[int, str] = {}
        for place, answer in enumerate(answers):
            if not isinstance(answer, SubcallFailure):
                try:
                    values[place] = self._read(answer)
                except WrongFormError as error:
                    wrong[place] = _AGAIN.format(
                        asked=asked[place], reply=answer[:_SHOWN_CHARS], reason=shortened(str(error), _REASON_CHARS)
                    )
        if wrong:
            answers = yield [*wrong.values()]
            for place, answer in zip(wrong, answers, strict=True):
                values[place] = self._last(answer)
        return values

    def _take(self, wanted: Any) -> None:
        if isinstance(wanted, str):
            raise TypeError("it is a text")
        if isinstance(wanted, Mapping):
            self._json_schema = JsonSchema(wanted)
            self._schema = self._json_schema.schema
        else:
            from pydantic import TypeAdapter

            self._adapter = TypeAdapter(wanted)
            self._schema = self._adapter.json_schema()

    def _last(self, answer: str | SubcallFailure) -> Any:
        if isinstance(answer, SubcallFailure):
            return answer
        try:
            return self._read(answer)
        except WrongFormError as error:
            return SubcallFailure(
                f"its reply had another form than asked for, twice: {shortened(str(error), _REASON_CHARS)}"
            )

    def _read(self, reply: str) -> Any:
        fenced = _FENCED.match(reply)
        text = (fenced[1] if fenced else reply).strip()
        try:
            return self._value(text)
        except WrongFormError:
            # a lone word is no JSON, but what a label was meant to be
            if "\n" in text or text[:1] in '{["':
                raise
            return self._value(json.dumps(text))

    def _value(self, text: str) -> Any:
        try:
            data = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise WrongFormError(f"it is no JSON: {error}") from None
        try:
            if self._adapter is not None:
                return self._adapter.validate_json(text)
            errors = self._json_schema.errors(data)
        except Exception as error:  # noqa: BLE001  validators may be the model's own code
            raise WrongFormError(_said(error)) from None
        if errors:
            raise WrongFormError(": ".join(filter(None, errors[0])))
        return data


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number in JSON")


def _said(error: Exception) -> str:
    """Return what is wrong, and where."""
    errors = getattr(error, "errors", None)
    if callable(errors):
        first = errors()[0]
        place = "".join(f"[{part!r}]" for part in first["loc"])
        return f"{place} {first['msg']}".strip()
    return f"{type(error).__name__}: {error}"
