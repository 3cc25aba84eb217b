"""`AnswerType`: the form that an answer must have: described for the model, checked, and made into an instance."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.types.errors import ConfigurationError, PolicyError
from rlm_jupyter.types.events import RunEnded
from rlm_jupyter.types.json_form import form
from rlm_jupyter.types.json_schema import KEYWORDS, JsonSchema, takes_none
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.shortened import shortened
from rlm_jupyter.types.type_adapter import adapted, has_validators
from rlm_jupyter.types.unfenced import unfenced
from rlm_jupyter.types.values import Value

_MOST_ERRORS = 5
_MOST_DEPTH = 100
_NO_NUMBER = "{number} is no answer, and nothing that JSON has: say null, or leave it out"
_REASON_CHARS = 400
_MOST_FORM_CHARS = 8_000
"""Of a form that the model is shown."""


_NO_DATA = "no plain data could be made of a {type_name}: make lists, dicts, texts and numbers of it"


class AnswerError(Exception):
    """A value has another form; `reasons` say where and how, a line each."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


class AnswerType:
    """What an answer must be.

    Parameters
    ----------
    wanted
        Anything that pydantic's `TypeAdapter` takes (a model, a dataclass, `list[str]`, `Literal["a", "b"]`,
        `dict[str, float]`, `int`), or a JSON schema as a dict.

    Attributes
    ----------
    schema
        Its JSON schema.

    Raises
    ------
    ConfigurationError
        It is no type, or one that can't be described.
    """

    def __init__(self, wanted: object) -> None:
        self._wanted = wanted
        self._adapter: Any = None
        if isinstance(wanted, Mapping):
            self._json_schema = _checked_schema(wanted)
            self.schema = self._json_schema.schema
        else:
            try:
                self._adapter, self.schema = adapted(wanted)
            except TypeError as error:
                raise ConfigurationError(f"answer={error}.") from None
        if len(self.form) > _MOST_FORM_CHARS:
            raise ConfigurationError(
                f"The form of the answer takes {len(self.form):,} characters to describe; {_MOST_FORM_CHARS:,} are the "
                "most. Ask for less at once."
            )

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled as the type that it was made of."""
        return type(self), (self._wanted,)

    @classmethod
    def of(cls, wanted: object) -> Self | None:
        """Return the type of what a user has named; `None` for none."""
        return None if wanted is None else wanted if isinstance(wanted, cls) else cls(wanted)

    @cached_property
    def form(self) -> str:
        """What the model is shown."""
        return form(self.schema)

    @cached_property
    def has_validators(self) -> bool:
        """Whether functions of the user's judge an answer, which no record holds."""
        return self._adapter is not None and has_validators(self._adapter)

    @cached_property
    def takes_none(self) -> bool:
        """Whether `None` is an answer, and not the result of a function that returned nothing."""
        return takes_none(self.schema)

    def check(self, answer: Value) -> Value:
        """Return an answer in this form: as plain data, with its JSON as text (of a text, that text).

        A text that is not taken as such is read as JSON, in a fence or not; a number, where a text is wanted, as it
        reads. Of what is no plain data (a tuple, an object), the plain data that comes nearest is checked, and its text
        where that is not taken.

        Raises
        ------
        AnswerError
            It has another form.
        PolicyError
            A validator of the user's failed, and has not just refused the answer.
        """
        try:
            data = self._read(_data(answer))
        except AnswerError as error:
            is_number = isinstance(answer.json, int | float) and not isinstance(answer.json, bool)
            if answer.is_json and not is_number:
                raise
            if answer.nearest is None and not answer.is_json:
                raise AnswerError(
                    [*error.reasons, _NO_DATA.format(type_name=shortened(answer.type_name, 60))]
                ) from None
            try:
                data = self._read(answer.text)
            except AnswerError:
                raise error from None
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        return Value(text, data, is_json=True, declared=None if text == answer.text else answer.text)

    def takes(self, ended: RunEnded) -> bool:
        """Return whether a recorded answer has this form: types of one schema may have validators of their own."""
        if ended.stop_reason != "answered":
            return True  # of a policy, or a draft: whatever its form
        try:
            self.check(Value(ended.answer or "", ended.value, ended.is_json))
        except AnswerError:
            return False
        return True

    def instance(self, data: Any) -> Any:
        """Return an instance made of plain data in this form; the data itself where that is all there is."""
        if self._adapter is None:
            return data
        try:
            return self._adapter.validate_json(json.dumps(data))
        except Exception:  # noqa: BLE001  of a draft that has another form; its validators are the user's
            return data

    def _read(self, data: Any) -> Any:
        """Return plain data in this form, of such data or of a text that holds some."""
        try:
            return self._plain(data)
        except AnswerError as error:
            if not isinstance(data, str):
                raise
            try:
                data = json.loads(unfenced(data))
            except (ValueError, RecursionError):
                raise error from None
            return self._plain(data)

    def _plain(self, data: Any) -> Any:
        """Return data that an instance can be made of, where it can be with defaults filled in."""
        try:
            text = json.dumps(data, allow_nan=False)
        except ValueError:
            infinite = [(where, _NO_NUMBER.format(number=number), None) for where, number in _infinite(data)]
            raise AnswerError(_listed(infinite)) from None
        except RecursionError:
            raise AnswerError(["it is nested too deeply"]) from None
        return self._by_schema(data) if self._adapter is None else self._by_type(text)

    def _by_type(self, text: str) -> Any:
        from pydantic import ValidationError

        try:
            value = self._adapter.validate_json(text)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False)
            raise AnswerError(_listed([(_path(one["loc"]), _message(one), one["input"]) for one in found])) from None
        except Exception as error:
            raise PolicyError(f"A validator of the answer's type failed: {said_with_place(error)}") from error
        try:
            # a text may have said "inf"; what is a default, nobody has answered
            json.dumps(self._adapter.dump_python(value, mode="json", exclude_unset=True), allow_nan=False)
            written = self._adapter.dump_json(value, by_alias=True, round_trip=True)
        except Exception as error:  # noqa: BLE001  a serializer of the user's may raise anything
            raise AnswerError([shortened(f"{type(error).__name__}: {error}", _REASON_CHARS)]) from None
        return json.loads(written if self._is_read_as(value, written) else text)

    def _is_read_as(self, value: Any, written: bytes) -> bool:
        """Return whether what is written reads as this value: aliases, serializers and secrets may change it."""
        try:
            return bool(self._adapter.validate_json(written) == value)
        except Exception:  # noqa: BLE001  as above; a value may not be comparable, either
            return False

    def _by_schema(self, data: Any) -> Any:
        try:
            errors = self._json_schema.errors(data)
            # as a type of Python's takes it, whose schema this may be
            if errors and not self._json_schema.errors(other := self._json_schema.with_numbers(data)):
                return other
        except ValueError as error:
            raise AnswerError([shortened(str(error), _REASON_CHARS)]) from None
        if errors:
            raise AnswerError(_listed([(path, message, None) for path, message in errors]))
        return data


def _data(answer: Value) -> Any:
    if answer.is_json:
        return answer.json
    return answer.text if answer.nearest is None else answer.nearest


def read_schema(path: Path) -> dict[str, Any]:
    """Read a JSON schema from a file.

    Raises
    ------
    ConfigurationError
        There is none in it.
    """
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"The schema {path} can't be read: {error.strerror or error}.") from None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"The schema {path} is no JSON: {error}.") from None
    if not isinstance(schema, dict):
        raise ConfigurationError(f"The schema {path} is no JSON schema: it holds a {type(schema).__name__}.")
    return schema


def _checked_schema(schema: Mapping[str, Any]) -> JsonSchema:
    try:
        found = JsonSchema(schema)
        found.check_references()
    except ValueError as error:
        raise ConfigurationError(f"The schema of the answer is {shortened(str(error), _REASON_CHARS)}.") from None
    if found.says_nothing:
        raise ConfigurationError(f"The schema of the answer, {quoted(dict(schema))}, takes any answer: {KEYWORDS}.")
    return found


def said_with_place(error: BaseException) -> str:
    """Return what an error of the user's code says, and where in that code it was raised."""
    said = shortened(" ".join(f"{type(error).__name__}: {error}".split()), _REASON_CHARS).rstrip(".")
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not _is_library(frame.filename)]
    return f"{said} ({frames[-1].name}, line {frames[-1].lineno})" if frames else said


def _is_library(filename: str) -> bool:
    return "site-packages" in filename or filename.startswith(str(Path(__file__).parents[1]))


def _infinite(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Return where plain data has numbers that JSON has not, and which."""
    if isinstance(data, float) and not math.isfinite(data):
        yield path, "NaN" if math.isnan(data) else "infinity"
    elif isinstance(data, dict | list) and path.count(".") + path.count("[") < _MOST_DEPTH:
        parts = data.items() if isinstance(data, dict) else enumerate(data)
        for key, part in parts:
            yield from _infinite(part, _path(((path,) if path else ()) + (key,)))


def _message(error: Mapping[str, Any]) -> str:
    """Return what pydantic says of a value, in one clause."""
    said = str(error["msg"])
    if error["type"] in {"value_error", "assertion_error"}:
        return said.partition(", ")[2] or said
    return said.partition(", unable to parse")[0]


def _path(location: tuple[int | str, ...]) -> str:
    """Return `lines[0].amount`."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _listed(errors: list[tuple[str, str, Any]]) -> list[str]:
    lines = []
    for path, message, given in errors[:_MOST_ERRORS]:
        got = "" if given is None or isinstance(given, dict | list) else f", not {quoted(given)}"
        begins = message[:1] if message.startswith("NaN") else message[:1].lower()
        said = shortened(begins + message[1:], _REASON_CHARS)
        lines.append(f"{f'{shortened(path, _REASON_CHARS)}: ' if path else ''}{said}{got}")
    more = len(errors) - _MOST_ERRORS
    return lines + ([f"and {more:,} more"] if more > 0 else [])
