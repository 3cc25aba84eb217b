"""What a kernel says of itself, read with care: code that a model wrote can make it say anything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rlm_jupyter.kernel.guest.codec import WireMessage, to_text
from rlm_jupyter.types.errors import KernelError
from rlm_jupyter.types.shortened import shortened
from rlm_jupyter.types.values import ContextInfo, Inspection, PackedContext, Value, Variable

_PROBLEM_CHARS = 300
"""Of what a kernel says is wrong with a file."""


def inspection(content: dict[str, Any]) -> Inspection:
    """Return the reply to `rlm_inspect`.

    Raises
    ------
    KernelError
        It is none.
    """
    with readable():
        confidence = content["confidence"]
        return Inspection(
            answer_state=content["answer"] if content["answer"] in ("declared", "refused") else "none",
            problem=str(content["problem"]),
            draft_ready=content["draft_ready"] is True,
            draft=content["draft"] is True,
            restored=tuple(dict.fromkeys(map(str, content["restored"]))),
            notices=tuple(map(str, content["notices"])),
            exited=content["exited"] is True,
            confidence=None if confidence is None else min(max(float(confidence), 0.0), 1.0),
            variables=tuple(Variable(*map(str, variable)) for variable in content["variables"]),
        )


def fetched(done: WireMessage) -> Value:
    """Return the reply to `rlm_get`; to be taken apart where it is `readable`."""
    text = to_text(done.buffers[0])
    if done.content["type_name"] == "str":
        return Value(text, text, is_json=True)
    try:
        data, is_json = (json.loads(bytes(done.buffers[1])), True) if len(done.buffers) > 1 else (None, False)
    except ValueError:
        data, is_json = None, False
    if done.content["exact"] is not True:
        return Value(text, type_name=done.content["type_name"], nearest=data)
    return Value(text, data, is_json=is_json, type_name=done.content["type_name"])


def output(done: WireMessage, most: int) -> bytes | str:
    """Return the reply to `rlm_output`: a file's bytes, or what is wrong with it. Where it is `readable`."""
    if problem := done.content["problem"]:
        return shortened(" ".join(str(problem).split()), _PROBLEM_CHARS)
    [data] = done.buffers
    if data.nbytes > most:
        return f"has more than {most:,} bytes"
    return bytes(data)


def changed(done: WireMessage, *, pickles: bool) -> object:
    """Return the value in the reply to `rlm_changed`: itself, or packed where it is a pickle, which is not read here.

    To be taken apart where it is `readable`; `None`: there is none.
    """
    match done.content["kind"]:
        case "str":
            return to_text(done.buffers[0])
        case "bytes":
            return bytes(done.buffers[0])
        case "json":
            return json.loads(bytes(done.buffers[0]))
        case "pickle" if pickles:
            data = bytes(done.buffers[0])
            name, size = str(done.content["type_name"]), str(done.content["size"])
            name = f"object {name}" if name in {"none", "str", "bytes"} else name  # these tell how to unpack it
            size = f"shape {size}" if size.startswith("(") else f"{size} items" if size else "an object"
            info = ContextInfo(name, size, sha256=hashlib.sha256(data).hexdigest(), nbytes=len(data))
            return PackedContext("pickle", (data,), info)
    return None


@contextmanager
def readable() -> Iterator[None]:
    """Turn what goes wrong as a reply is taken apart into the kernel's failure: it is not ours."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise KernelError("the kernel can't be read any more: a cell has changed how it answers") from error
