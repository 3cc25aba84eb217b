"""What people ask of a run at the page, done: to its control, and an export of it."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from typing import Any

from rlm_jupyter.frontends.live import facts
from rlm_jupyter.record.catalog import find
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.run import living
from rlm_jupyter.types.errors import ConfigurationError, RLMError
from rlm_jupyter.types.events import CallProposed
from rlm_jupyter.types.quoted import quoted

log = logging.getLogger(__name__)


def act(control: Any, data: dict[str, Any]) -> bool:
    """Do what a page asks for; what is not known is passed over, and `False` returned.

    Raises
    ------
    ConfigurationError
        It can't be done; says why, for the person who asked.
    """
    match data:
        case {"type": "stop"}:
            control.stop()
        case {"type": "pause"}:
            control.pause()
        case {"type": "resume"}:
            control.resume()
        case {"type": "approve"}:
            edited = data.get("edited")
            control.approve(edited if isinstance(edited, str) else None)
        case {"type": "refuse"}:
            control.refuse(str(data.get("note") or ""))
        case {"type": "undo"}:
            control.undo(str(data.get("note") or ""))
        case {"type": "note", "text": str(text)}:
            control.note(text)
        case {"type": "limit", "name": str(name), "value": bool()}:
            raise ConfigurationError(f"{name} is a number.")
        case {"type": "limit", "name": str(name), "value": int() | float() | None as value}:
            control.raise_limit(name, value if value is None else float(value))
        case {"type": "nothing"}:
            pass
        case _:
            log.info("A page asked for something that is not known: it was passed over.")
            return False
    return True


def decide(control: Any, call: CallProposed | None, ask: dict[str, Any]) -> None:
    """Allow or refuse the call of a tool that waits, where it is the one that the page means.

    With `all`, a call that is allowed stands for all further ones of its tool, as long as the run goes on.
    """
    if control is None or call is None or ask["call"] != facts.call_id(call):
        log.info("A decision meant another call than the one that waits: it was passed over.")
        return
    position = (call.iteration, call.block, call.ordinal)
    if ask["type"] == "refuse":
        control.refuse(str(ask.get("note") or ""), cell=position)
        return
    if ask.get("all") is True:
        control.approve_all(call.tool)
    control.approve(cell=position)


def export(ask: dict[str, Any], told: facts.RunFacts) -> None:
    """Write the run, as it is on disk, beside the notebook that is worked in; the facts say where, or why not."""

    def files() -> RunFiles:
        if told.notebook is None:
            raise ConfigurationError("This run is not saved, so there is nothing to export.")
        return RunFiles(told.notebook)

    told.asks.say(ask, **_written(files, ask.get("form")))


def keep_for_branch(ask: dict[str, Any], told: facts.RunFacts) -> None:
    """Keep a run's kernel as it is after an iteration, for a branch; the facts say what a branch will be like."""
    at = ask.get("at")
    if not isinstance(at, int) or isinstance(at, bool):
        log.info("A page asked for a branch at no iteration: it was passed over.")
        return
    told.asks.say(ask, "branch", living.keep(told.run_id, at))


def export_saved(run: str, form: str) -> str:
    """Write a run that was saved, for a page that has only its id; what came of it, as JSON in base64.

    The page evaluates it in the notebook's kernel, and gets a representation of the value: base64 has nothing
    in it that a representation would change.
    """
    said = _written(lambda: find(run, facts.home()), form)
    return base64.b64encode(json.dumps(said).encode()).decode()


def _written(files: Callable[[], RunFiles], form: object) -> dict[str, Any]:
    """Return what there is to say of an export: `what`, a `text` for people, and the `file`, if there is one."""
    # with all that makes pages, it is loaded only where it is wanted
    from rlm_jupyter.record.export.write import FORMS, send

    try:
        if not isinstance(form, str) or form not in FORMS:
            raise ConfigurationError(f"A run is exported as one of {', '.join(FORMS)}, not {quoted(form)}.")
        sent = send(files(), form, facts.home())
    except (RLMError, OSError) as error:
        return {"what": "refused", "text": str(error)}
    except Exception as error:  # where it is called, nobody else would say that it came to nothing
        log.exception("The run could not be exported")
        return {"what": "refused", "text": f"The run could not be exported: {type(error).__name__}: {error}"}
    file = {} if sent.path is None else {"file": facts.page_path(sent.path)}
    return {"what": "exported", "text": " ".join(sent.said), **file}
