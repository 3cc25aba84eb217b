"""`Question`: what a `%%rlm --here` cell asks, and what of it can go to the driver's process."""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.prompts.description import describe
from rlm_jupyter.run import context as contexts
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.types.errors import ConfigurationError, ContextError
from rlm_jupyter.types.values import ContextInfo, PackedContext

_MOST_KEPT = 64 * 2**20
"""Bytes of a context above which it is not kept with the run: it is here already, and may be larger than a disk."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a cell asks."""

    prompt: str
    context: Any
    """The object itself; `None` where `-c` names nothing."""
    model: str
    options: dict[str, Any]
    """Of `RLM`, less the model."""
    answer_type: AnswerType | None = None
    """What the answer must be; the driver knows its schema."""
    rerun: bool = False
    approve: bool = False
    """Put each cell before the user."""


def packed(context: Any) -> PackedContext:
    """Return the context described, with its bytes where they are to be kept with the run."""
    try:
        packed = contexts.pack(context)
    except ContextError:
        # it can't be kept, but it is here: the model gets the object itself
        return PackedContext("none", (), ContextInfo(type(context).__name__, *describe(context)))
    if packed.info.nbytes > _MOST_KEPT:
        return PackedContext("none", (), packed.info)
    return dataclasses.replace(packed, buffers=tuple(bytes(buffer) for buffer in packed.buffers))


def check_options(options: dict[str, Any]) -> None:
    """Refuse what the driver, a process of its own, could not have."""
    for name in ("termination", "reward"):
        policy = options.get(name)
        module = getattr(policy, "__module__", None) or ""
        if module == "__main__" or not _is_picklable(policy):
            raise ConfigurationError(
                f"With --here a {name} policy must come from a module, as package.module:Name: the process that "
                "drives the run has none of this notebook's own definitions."
            )


def _is_picklable(value: object) -> bool:
    try:
        pickle.dumps(value)
    except Exception:  # noqa: BLE001  whatever it was, it can't be handed over
        return False
    return True
