"""`Structured`: the form of a reply as providers take it: a JSON schema that their decoding keeps to.

OpenAI's `response_format` (https://platform.openai.com/docs/guides/structured-outputs), which llama.cpp, Ollama,
LM Studio and vLLM take too, and Anthropic's `output_config`
(https://docs.claude.com/en/docs/build-with-claude/structured-outputs) want an object at the top: any other form is put
into one, and taken out of the reply. A schema is a help, no promise: whoever asked checks the reply all the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_KEY = "answer"
_SHARED = ("$defs", "definitions")
"""Where a schema keeps what its references name."""


@dataclass(frozen=True, slots=True)
class Structured:
    """A form that a reply is to have."""

    schema: Mapping[str, Any]
    """As it is sent; an object's."""
    is_wrapped: bool
    """Whether the object is ours, and what was asked for stands in it."""

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Structured | None:
        """Return what is sent for a schema; `None` where it can't be: its references would lead elsewhere."""
        if any(not reference.startswith(tuple(f"#/{name}/" for name in _SHARED)) for reference in _references(schema)):
            return None
        if schema.get("type") == "object" and "$ref" not in schema:
            return cls(schema, is_wrapped=False)
        inner = {name: value for name, value in schema.items() if name not in (*_SHARED, "$schema")}
        shared = {name: schema[name] for name in _SHARED if name in schema}
        form = {"type": "object", "properties": {_KEY: inner}, "required": [_KEY], "additionalProperties": False}
        return cls(form | shared, is_wrapped=True)

    def unwrapped(self, text: str) -> str:
        """Return a reply as it would be without our object; one that is not of that form, as it is."""
        if not self.is_wrapped:
            return text
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if not isinstance(data, dict) or data.keys() != {_KEY}:
            return text
        return json.dumps(data[_KEY], ensure_ascii=False)


def _references(schema: object) -> Iterator[str]:
    """Yield what a schema refers to; of one that nests too deeply, something that is found nowhere."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            reference = part.get("$ref")
            if isinstance(reference, str):
                yield reference
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
