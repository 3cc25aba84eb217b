"""A live cell that a person executes runs in the kernel of its run, never in the reader's own.

There its variables are. It enters no record, asks no model and ends no run; where that kernel is gone, or a run is
using it, it runs nowhere, and a line says so. Run All asks anew first, which replaces the live cells: the old ones
that come after it are not known any more, and so run nowhere.
"""

from __future__ import annotations

import concurrent.futures
import queue
import re
from collections.abc import Callable
from typing import Any

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.frontends.live.open_runs import OpenRun, by_cell
from rlm_jupyter.frontends.live.relay import Relay
from rlm_jupyter.replay.recalled_calls import Recalled
from rlm_jupyter.run import background, ctrl_c
from rlm_jupyter.run.background_session import BackgroundSession
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.types.errors import ConfigurationError, KernelDiedError
from rlm_jupyter.types.values import CellPosition, CellRun, Value

_LIVE = re.compile(r"rlm-[0-9a-f]{8}-\d+")
"""The ids of live cells; no notebook's own look so."""
_GUARD = "%%rlm_live\n"
"""What a page writes above a live cell that it sends: a kernel without this package knows no such magic, so it does not
run the code of a model with the rights of its user."""
_MOST_INTERRUPTS = 2
"""That are passed on; with one more, nobody waits for the cell any longer."""

# a page shows 140 characters of a notice
_KERNEL_GONE = (
    "the kernel of its run is gone. Its cells can be executed in the run's own notebook; --rerun in the cell that "
    "asked runs it again"
)
_CHILD = "it is a child's, whose kernel is gone as soon as it has answered. Copy it into a cell of yours"
_HERE = "its run was one in this notebook's own kernel. Copy it into a cell of yours"
_GONE = "--rerun runs it again; %rlm_restore or its notebook re-executes it"

Executed = tuple[CellRun, Value | None]


def to_its_kernel(shell: Any) -> Callable[[list[str]], list[str]]:
    """Return an input transformer that turns a live cell into a call that runs it where it belongs."""

    def transform(lines: list[str]) -> list[str]:
        kernel = getattr(shell, "kernel", None)
        if kernel is None:
            return lines
        cell_id = (kernel.get_parent().get("metadata") or {}).get("cellId")
        if not isinstance(cell_id, str) or not _LIVE.fullmatch(cell_id):
            return lines
        lines = lines[1:] if lines[:1] == [_GUARD] else lines
        source, live = "".join(lines), by_cell(cell_id)
        if _ran_here(live) and live is not None and _differs(live, cell_id, source):
            return lines  # somebody has made it theirs
        return [f"get_ipython().magics_manager.registry['RLMMagics'].by_hand({cell_id!r}, {source!r})\n"]

    # it depends on the request, which asks of a cell's completeness don't
    transform.has_side_effects = True  # type: ignore[attr-defined]
    return transform


def execute(shell: Any, cell_id: str, source: str) -> None:
    """Run a live cell in the kernel of its run, and show here what it shows there.

    Parameters
    ----------
    shell
        Of the notebook's kernel.
    cell_id, source
        The cell, as it stands in the notebook now.

    Raises
    ------
    Exception
        The cell failed: an error of the same name and text, so that Run All stops.
    KernelDiedError
        It took its kernel with it.
    KeyboardInterrupt
        It heeded no interrupt, and still runs.
    """
    live = by_cell(cell_id)
    relay = Relay(shell.kernel, cell_id.rpartition("-")[0])
    running = live.running if live is not None else None
    position = live.cells.position_of(cell_id) if live is not None else None
    session = running.session if isinstance(running, RunHandle) else None
    if live is None or not isinstance(session, BackgroundSession) or position is None:
        _refuse(relay, _why_not(live, position))
        return
    recalled = Recalled(session.records, live.cells.facts.told()["run_id"], position)
    news: queue.SimpleQueue[tuple[str, dict[str, Any]] | None] = queue.SimpleQueue()
    executing = background.submit(session.execute(source, recalled, lambda *message: news.put(message)))
    executing.add_done_callback(lambda _: news.put(None))
    _follow(session, news, relay)
    try:
        run, said = executing.result()
    except ConfigurationError as refusal:
        gone = session.closed or bool(session.given_up)
        _refuse(relay, f"{refusal}. {_GONE}" if gone else str(refusal), gone=gone)
        return
    except KernelDiedError:
        _refuse(
            relay,
            f"the kernel of its run has died. {_ask(session)} starts it again; its variables are gone",
            gone=False,
        )
        return
    except concurrent.futures.CancelledError:
        raise KeyboardInterrupt("the kernel of the run was closed meanwhile") from None
    _end(session, relay, run, said)


def _follow(
    session: BackgroundSession, news: queue.SimpleQueue[tuple[str, dict[str, Any]] | None], relay: Relay
) -> None:
    """Show what comes, until the cell is over; interrupts go to it."""

    def look(seconds: float) -> bool | None:
        try:
            message = news.get(timeout=seconds)
        except queue.Empty:
            return None
        if message is None:
            return True
        relay.take(*message)
        return None

    def on_interrupt(number: int) -> None:
        if number > _MOST_INTERRUPTS:
            owner = f" {session.owner}.close() ends its kernel." if session.owner else ""
            raise KeyboardInterrupt(f"the cell heeds no interrupt, and still runs.{owner}") from None
        background.submit(session.interrupt())

    ctrl_c.wait(look, on_interrupt)


def _end(session: BackgroundSession, relay: Relay, run: CellRun, said: Value | None) -> None:
    """Say where it ran, and fail where it failed."""
    if said is not None:
        relay.say(said.text, fragments.block(fragments.prose(said.text)))
    owner = f" of {session.owner}" if session.owner else ""
    text = f"Ran in the kernel{owner}, not in this notebook's."
    if said is not None:
        text += " FINAL ends nothing in a cell run by hand: the answer of the run stays."
    if not relay.failed:
        relay.release()
    relay.say(text, _small(text), by_hand=True, count=relay.count)
    if run.status == "died":
        raise KernelDiedError(f"the kernel of the run died in this cell. {_ask(session)} starts it again")
    if relay.failure is not None:
        raise _as_raised(relay.failure)


def _as_raised(failure: dict[str, Any]) -> Exception:
    """Return the error of a cell in another kernel, such that IPython shows it as it was shown there."""
    kind = type(failure["ename"] or "Error", (Exception,), {})
    error: Exception = kind(failure["evalue"])
    error.__dict__["_render_traceback_"] = lambda: failure["traceback"]
    return error


def _refuse(relay: Relay, reason: str, *, gone: bool = True) -> None:
    """Say why it runs nowhere, now or (`gone`) for good; the page puts back what the cell showed before."""
    text = f"Not run: {reason}."
    relay.say(text, _small(text), by_hand=False, gone=gone)


def _small(text: str) -> str:
    # how it looks stands in the page already, with the run
    return f'<div class="rlm">{fragments.facts(text)}</div>'


def _why_not(live: OpenRun | None, position: CellPosition | None) -> str:
    if _ran_here(live):
        return _HERE
    # of a run that is shown from its record, too
    return _CHILD if live is not None and position is None else _KERNEL_GONE


def _ran_here(live: OpenRun | None) -> bool:
    """Return whether its run was one in the reader's own kernel (`--here`)."""
    return live is not None and live.running is not None and not isinstance(live.running, RunHandle)


def _differs(live: OpenRun, cell_id: str, source: str) -> bool:
    return (live.cells.source(cell_id) or "").strip() != source.strip()


def _ask(session: BackgroundSession) -> str:
    return f"{session.owner or 'rlm_result'}.ask(…)"
