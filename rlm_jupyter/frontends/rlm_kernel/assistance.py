"""`Assistance`: completion, inspection and whether a cell is complete. Prose is left alone."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from pathlib import Path
from typing import Any

from rlm_jupyter.frontends.rlm_kernel.backend import Driven
from rlm_jupyter.frontends.rlm_kernel.commands import HELP
from rlm_jupyter.frontends.rlm_kernel.config import LIMITS
from rlm_jupyter.frontends.rlm_kernel.parsed_cell import PYTHON, body_at, is_code, is_python, rest_at
from rlm_jupyter.models import PROVIDERS, discovery
from rlm_jupyter.run import background

_MOST_FILES = 200
_MODEL_OPTIONS = ("--sub-model", "--base-url", "--window", "--price")
_NOTHING_FOUND: dict[str, Any] = {"status": "ok", "found": False, "data": {}, "metadata": {}}
_TYPES = "_jupyter_types_experimental"
"""The kinds of completions, which front ends show beside them."""


class Assistance:
    """Answers for commands by itself, and for code asks the kernel behind."""

    def __init__(self, driven: Driven) -> None:
        self._driven = driven

    async def complete(self, code: str, cursor: int) -> dict[str, Any]:
        """Return the content of a complete reply."""
        line_at = code.rfind("\n", 0, cursor) + 1
        before = code[line_at:cursor]
        rest = rest_at(code, tuple(HELP))
        own = _matches(before) if line_at < rest or not code[rest:line_at].strip() else []
        # a word reaches back to the blank before it
        word_at = line_at + len(before) - len(re.split(r"\s", before)[-1])
        nothing = {"status": "ok", "matches": own, "cursor_start": word_at, "cursor_end": cursor, "metadata": {}}
        offset = _code_at(code, rest)
        if cursor < offset or not is_code(code[rest:]):
            return nothing
        asked = {"code": code[offset:], "cursor_pos": cursor - offset}
        reply = await self._request("complete_request", asked)
        if reply is None or reply.get("status") != "ok":
            return nothing
        shift(reply, offset)
        if own and reply["cursor_start"] == word_at:
            reply["matches"] = [*own, *(match for match in reply["matches"] if match not in own)]
        elif own:
            return nothing
        return reply

    async def inspect(self, code: str, cursor: int, detail: int) -> dict[str, Any]:
        """Return the content of an inspect reply."""
        rest = rest_at(code, tuple(HELP))
        if cursor < rest or (cursor == rest and not code[rest:]):
            line = code[code.rfind("\n", 0, cursor) + 1 :].strip()
            text = HELP.get(line.removeprefix("%").split(None, 1)[0]) if line else None
            return (
                {"status": "ok", "found": True, "data": {"text/plain": text}, "metadata": {}}
                if text
                else _NOTHING_FOUND
            )
        offset = _code_at(code, rest)
        if cursor < offset or not is_code(code[rest:]):
            return _NOTHING_FOUND
        asked = {"code": code[offset:], "cursor_pos": cursor - offset, "detail_level": detail}
        return await self._request("inspect_request", asked) or _NOTHING_FOUND

    async def is_complete(self, code: str) -> dict[str, Any]:
        """Return the content of an is_complete reply."""
        rest = code[rest_at(code, tuple(HELP)) :]
        if not is_code(rest):
            return {"status": "complete"}
        if is_python(rest):
            # as with any cell magic, an empty line ends it
            body = rest[body_at(rest) :]
            reply = await self._request("is_complete_request", {"code": body}) if body.strip() else None
            if reply is not None and reply["status"] == "complete" and not body.endswith("\n"):
                return {"status": "incomplete", "indent": ""}
            return reply or {"status": "incomplete", "indent": ""}
        return await self._request("is_complete_request", {"code": rest}) or {"status": "unknown"}

    async def _request(self, msg_type: str, content: dict[str, Any]) -> dict[str, Any] | None:
        return await asyncio.wrap_future(background.submit(self._driven.request_shell(msg_type, content)))


def shift(reply: dict[str, Any], offset: int) -> None:
    """Make a complete reply to a part of a cell one to the whole."""
    reply["cursor_start"] += offset
    reply["cursor_end"] += offset
    for kind in reply.get("metadata", {}).get(_TYPES, []):
        kind["start"] += offset
        kind["end"] += offset


def _code_at(code: str, rest: int) -> int:
    """Return where what the kernel behind is asked about begins."""
    return rest + body_at(code[rest:]) if is_python(code[rest:]) else rest


def _matches(before: str) -> list[str]:
    """Return what may stand at the end of a command's line."""
    if re.fullmatch(r"\s*%\w*", before):
        return [f"%{name}" for name in HELP if f"%{name}".startswith(before.strip())]
    if re.fullmatch(r"\s*%%\w+", before):
        return [PYTHON] if PYTHON.startswith(before.strip()) else []
    found = re.match(r"\s*%(\w+)\s", before)
    if found is None or found[1] not in HELP:
        return []
    word = re.split(r"\s", before)[-1]
    match found[1]:
        case "model":
            choices = [*_MODEL_OPTIONS, *discovery.choices(word)]
        case "limits":
            choices = [f"{name}=" for name in LIMITS]
        case "rlm_key":
            choices = [name for name, preset in PROVIDERS.items() if preset.key_variables]
        case _:
            return _files(word)
    return [choice for choice in dict.fromkeys(choices) if choice.startswith(word)]


def _files(word: str) -> list[str]:
    folder, name = os.path.split(word)
    try:
        entries = sorted(Path(folder or ".").expanduser().iterdir())
    except OSError:
        return []
    shown = [entry for entry in entries if entry.name.startswith(name) and (name or not entry.name.startswith("."))]
    return [
        # `~` is spelled out by the loader, and quoted it would be a name
        ("~" if folder.startswith("~") else "")
        + shlex.quote(os.path.join(folder, entry.name).removeprefix("~"))  # noqa: PTH118
        + ("/" if entry.is_dir() else "")
        for entry in shown[:_MOST_FILES]
    ]
