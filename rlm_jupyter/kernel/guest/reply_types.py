"""`ReplyType`: what the reply to a sub-call must be: asked for, read from the reply, and asked for once more."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from rlm_jupyter.kernel.guest.subcall_client import Answers, SubcallFailure
from rlm_jupyter.types.json_form import form
from rlm_jupyter.types.json_schema import KEYWORDS, JsonSchema
from rlm_jupyter.types.prompt import framed
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.shortened import shortened
from rlm_jupyter.types.type_adapter import adapted
from rlm_jupyter.types.unfenced import unfenced

_PLACE = "{prompt}"
_ASKED = "{prompt}\n\nReply with JSON alone, of this form:\n{form}"
_AGAIN = (
    "{prompt}\n\nYou have replied\n<reply>\n{reply}\n</reply>\nThat has another form: {reason}. Reply again, with JSON "
    "alone."
)
_ASKED_OF_CHILD = "Reply with JSON alone, of this form:\n{form}\n\n{prompt}"
"""A child has the prompt as its context, and has read no more than how that begins when it writes code."""
_AGAIN_OF_CHILD = "A reply\n<reply>\n{reply}\n</reply>\nhad another form: {reason}.\n\n{prompt}"
_SHOWN_CHARS = 2_000
"""Of a reply that is shown to who gave it."""
_CHILD_SHOWN_CHARS = 100
MOST_SCHEMA_CHARS = 20_000
_REASON_CHARS = 300
_MOST_ERROR_CHARS = 600


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
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name}: answer={shortened(' '.join(str(error).split()), _MOST_ERROR_CHARS)}") from None
        self._form = form(self._schema)
        self.sent = None if len(json.dumps(self._schema)) > MOST_SCHEMA_CHARS else self._schema
        """For the provider, whose decoding may keep to it; a very large one is shown in words alone."""
        is_child = "rlm_query" in name
        self._asked, self._again = (_ASKED_OF_CHILD, _AGAIN_OF_CHILD) if is_child else (_ASKED, _AGAIN)
        self._shown_chars = _CHILD_SHOWN_CHARS if is_child else _SHOWN_CHARS

    def settle(self, prompts: Sequence[str]) -> Generator[list[str], Answers, list[Any]]:
        """Yield what is to be asked, and take what came; return the values, with failures in their places.

        A reply of another form is asked for once more.
        """
        before, after = (part.format(form=self._form) for part in self._asked.split(_PLACE))
        asked = [framed(before, prompt, after) for prompt in prompts]
        answers = yield asked
        values: list[Any] = list(answers)
        wrong: dict[int, str] = {}
        for index, answer in enumerate(answers):
            if not isinstance(answer, SubcallFailure):
                try:
                    values[index] = self._read(answer)
                except WrongFormError as error:
                    said = {
                        "reply": shortened(answer, self._shown_chars),
                        "reason": shortened(str(error), _REASON_CHARS),
                    }
                    before, after = (part.format(**said) for part in self._again.split(_PLACE))
                    wrong[index] = framed(before, asked[index], after)
        if wrong:
            answers = yield [*wrong.values()]
            for index, answer in zip(wrong, answers, strict=True):
                values[index] = self._last(answer)
        return values

    def _take(self, wanted: Any) -> None:
        if isinstance(wanted, Mapping):
            try:
                self._json_schema = JsonSchema(wanted)
                self._json_schema.check_references()
            except ValueError as error:
                raise TypeError(f"{quoted(wanted)} is {error}") from None
            if self._json_schema.says_nothing:
                raise TypeError(f"{quoted(dict(wanted))} takes any reply: {KEYWORDS}")
            self._schema = self._json_schema.schema
        else:
            self._adapter, self._schema = adapted(wanted)

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
        text = unfenced(reply.strip())
        try:
            return self._value(text)
        except WrongFormError as error:
            # what is no JSON may be what a label, or a text, was meant to be
            if text[:1] in '{["':
                raise
            try:
                return self._value(json.dumps(text))
            except WrongFormError:
                if "\n" in text:
                    raise error from None
                raise

    def _value(self, text: str) -> Any:
        try:
            data = json.loads(text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise WrongFormError(f"it is no JSON: {error}") from None
        try:
            if self._adapter is not None:
                written = self._adapter.dump_python(self._adapter.validate_json(text), mode="json", exclude_unset=True)
                json.dumps(written, allow_nan=False)  # a text may have said "inf"
                return self._adapter.validate_json(text)
            json.dumps(data, allow_nan=False)
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
        path = "".join(f"[{part!r}]" for part in first["loc"])
        return f"{path} {first['msg']}".strip()
    return f"{type(error).__name__}: {error}"
