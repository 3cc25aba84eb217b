"""`request_digest`: what a request is told apart by, and found again on record."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from rlm_jupyter.models.abilities import abilities_of
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.settings import Settings, changing_answers
from rlm_jupyter.types.values import ContextInfo, PackedContext


def request_digest(
    settings: Settings,
    prompt: str,
    context: Context | PackedContext,
    *,
    attached: bool = False,
    runs_before: Sequence[str] = (),
    earlier: Sequence[ContextInfo] = (),
) -> str:
    """Digest a request: the same prompt, context, models and options give the same; blanks around a prompt don't count.

    Options count that may change the answer. Others don't, such as `insurance` and `preload`, which are recorded
    only: they change what a kernel costs, and an answer that is on record is found whatever they are.

    Parameters
    ----------
    runs_before
        The ids of the runs that the same kernel answered before, for a follow-up prompt.
    earlier
        The contexts that it was given before this one.
    """
    asked: dict[str, Any] = {
        "prompt": prompt.strip(),  # an editor adds and removes what is at the ends
        "context": context.info.sha256,
        "kind": context.kind,
        "models": [model.name for model in settings.routing.models],
        "limits": _counting(settings),
        "policies": [settings.termination.digest, settings.reward.digest],
        "kernel": "lent" if attached else settings.kernel_name,
    }
    asked |= _asked_before(settings, runs_before, earlier)
    if any(sampling := [dict(abilities_of(model).options) for model in settings.routing.models]):
        asked["options"] = sampling
    if settings.server is not None:
        asked["kernel_url"] = settings.server.url
    asked |= changing_answers(settings)
    # as it always was: else what is on record would be asked, and paid for, once more
    if extra := asked.pop("system_prompt_extra", None):
        asked["system"] = extra
    if settings.samples > 1:
        asked["require_agreement"] = settings.require_agreement
    if settings.answer is not None:
        asked["answer"] = settings.answer.schema
    if settings.outputs is not None:
        asked["outputs"] = settings.outputs.specs
    # what a server has is only known once it runs
    own = [spec for spec in settings.tools.specs if "." not in spec["name"]]
    asked |= _described(settings) | ({"tools": own} if settings.mcp else {})
    if sources := [*settings.tools.sources, *settings.sub_tools.sources]:
        asked["sources"] = sources
    if settings.mcp:
        asked["mcp"] = [server.digest for server in settings.mcp]
    if any(settings.served):
        asked["served"] = settings.served
    if folders := [(str(path), changed) for path, changed in settings.sandbox.folders()]:
        asked["folders"] = folders
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _asked_before(settings: Settings, runs_before: Sequence[str], earlier: Sequence[ContextInfo]) -> dict[str, Any]:
    """Return what tells apart prompts of a session, as far as there is anything."""
    asked = {"after": [*runs_before], "contexts": [info.sha256 for info in earlier], "session": settings.session}
    asked["ledger"] = "" if settings.ledger == "prompt" else settings.ledger
    return {name: value for name, value in asked.items() if value}


def _counting(settings: Settings) -> dict[str, Any]:
    """Return the limits that can affect this request; the others are left out of its digest."""
    limits = dataclasses.asdict(settings.whole_limits or settings.limits)
    if settings.answer is None and settings.outputs is None:
        del limits["max_answer_errors"]
    if not settings.tools and not settings.sub_tools and not settings.mcp:
        del limits["max_tool_calls"]
    return limits


def _described(settings: Settings) -> dict[str, Any]:
    """Return the tools, described."""
    boxes = {"tools": settings.tools, "sub_tools": settings.sub_tools}
    return {name: box.specs for name, box in boxes.items() if box}
