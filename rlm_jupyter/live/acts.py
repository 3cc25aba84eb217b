"""What people ask of a run at the page, done: to its control, and an export of it."""

from __future__ import annotations

import logging
from typing import Any

from rlm_jupyter.errors import ConfigurationError, RLMError
from rlm_jupyter.live import facts
from rlm_jupyter.store import RunFiles

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


def export(ask: dict[str, Any], told: facts.RunFacts) -> None:
    """Write the run, as it is on disk, beside the notebook that is worked in; the facts say where, or why not."""
    # with all that makes pages, it is loaded only where it is wanted
    from rlm_jupyter.export.sent import FORMS, send

    notebook, form = told.notebook, ask.get("form")
    try:
        if form not in FORMS:
            raise ConfigurationError(f"A run is exported as one of {', '.join(FORMS)}, not {form!r}.")
        if notebook is None:
            raise ConfigurationError("This run is not saved, so there is nothing to export.")
        sent = send(RunFiles(notebook), form, facts.home())
    except (RLMError, OSError) as error:
        told.asks.say(ask, "refused", str(error))
    except Exception as error:  # in a thread of its own: nobody else would say that it came to nothing
        log.exception("The run could not be exported")
        told.asks.say(ask, "refused", f"The run could not be exported: {type(error).__name__}: {error}")
    else:
        file = None if sent.path is None else facts.place(sent.path)
        told.asks.say(ask, "exported", " ".join(sent.said), file=file)
