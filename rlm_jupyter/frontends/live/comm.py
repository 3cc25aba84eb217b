"""`LiveRun`: a run told to JupyterLab over a comm, so that its cells appear below the cell that asked.

Messages go from the kernel to the page, numbered, and nothing depends on the other direction: a busy kernel
may not hear the page. What the page does say is `resync`, when it has missed something, `check`, to find that
out, `over`, when it knows of the end, `shown`, when it has not heard what the cell that asked shows, and `asks`: that
it shows the cells, and all that people want of the run and the facts don't yet say was heard (see `page_requests`).

Long because both directions of a run's line, and what closes it, have one lock and one order.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlm_jupyter.frontends.live import open_runs
from rlm_jupyter.frontends.live.actions import act, decide, export, keep_for_branch
from rlm_jupyter.frontends.live.asking_cell import AskingCell
from rlm_jupyter.frontends.live.cell import in_parts
from rlm_jupyter.frontends.live.cells import Cells
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import Event

TARGET = "rlm"
CONTROL = "rlm_page"
"""The type of a page's message on the control channel, which a busy kernel reads. It is a comm's in content."""
VERSION = 1
REST_SECONDS = 0.05
"""Between two messages, at least: a server drops what comes faster than a thousand a second."""
_BUSY_SECONDS = 0.15
_NEW_PAGE_SECONDS = 2.0
"""From a run's beginning on, for a page to say that its buttons work: it may have no extension of ours."""
_KNOWN_PAGE_SECONDS = 5.0
"""The same, where the page is known to have it."""
_BEHIND_SECONDS = 0.25
"""Until what was left for the next time is told."""
_AGAIN_SECONDS = (1.0, 3.0, 10.0, 30.0)
"""From the end on, until it is told again: the server may have dropped it, and nothing comes after it."""
log = logging.getLogger(__name__)
_greeted: set[str] = set()
"""Sessions of pages that have said that they show cells: their displays can be small from the start."""


def open_live(shell: Any, *, here: bool = False) -> LiveRun | None:
    """Tell the page of the run that begins in the cell under way; `None` where no page could show it.

    JupyterLab and Notebook name the cell in each request; a terminal, nbclient and the classic notebook don't.
    VS Code does, but it takes a comm that it does not know for a fault.
    """
    get_parent = getattr(getattr(shell, "kernel", None), "get_parent", None)
    if get_parent is None or "__vsc_ipynb_file__" in shell.user_ns:
        return None
    parent = get_parent()
    cell_id = (parent.get("metadata") or {}).get("cellId")
    if not isinstance(cell_id, str) or not cell_id:
        return None
    # a kernel without such handlers hears the page by its comms alone
    getattr(shell.kernel, "control_handlers", {}).setdefault(CONTROL, _hear_on_control)
    return LiveRun(shell, parent, cell_id, here=here)


def _hear_on_control(stream: object, identity: object, message: dict[str, Any]) -> None:
    """Hand a page's message to its run."""
    run = open_runs.by_comm(str(message.get("content", {}).get("comm_id")))
    if run is not None:
        run.hear(message)


class LiveRun:
    """One run's line to the page.

    Parameters
    ----------
    shell
        Of the kernel that the page is connected to.
    parent
        The execute request that the run belongs to.
    cell_id
        The page's id of the cell.
    here
        The model drives this kernel.
    """

    def __init__(self, shell: Any, parent: dict[str, Any], cell_id: str, *, here: bool = False) -> None:
        import comm

        self.cells = Cells(secrets.token_hex(4))
        if here:
            # one more than the cells before it: the empty input 0
            self.cells.facts.number = len(shell.history_manager.input_hist_parsed) - 1
        self.refused = False
        """The page has closed the line: it has no extension."""
        self.running: object | None = None
        """What people steer; `None` for a recorded run, which is only shown."""
        self.on_shown: Callable[[], None] | None = None
        """Called when the page has said so; another thread's call."""
        self.is_heard = False
        """The page can reach this run while its cell is executed: its buttons work."""
        self._opened = time.monotonic()
        self._kernel = shell.kernel
        self._cell_id = cell_id
        self._parent = parent
        self._page = str(parent.get("header", {}).get("session", ""))
        self._control: Any = None
        self._noted: dict[str, Any] | None = None
        """The last note to the model."""
        self._seq = 0
        self._sending = threading.Lock()
        self._news = threading.Event()
        self._over = threading.Event()
        self._known_to_be_over = threading.Event()
        """The page knows it, or is not to be told any more."""
        self._cell_is_over = False
        self._cell_lock = threading.Lock()
        self._asking = AskingCell(shell, parent["header"]["msg_id"])
        self._is_asking_wanted = False
        """The page wants to know what the cell that asked shows in the end."""
        comm_id = open_runs.free_id(TARGET, cell_id)
        opening = self._message({"parent": cell_id, "execution": parent["header"]["msg_id"]})
        self._comm = comm.create_comm(target_name=TARGET, comm_id=comm_id, data=opening)
        # ipykernel 7.4 hands a page's message to the shell that used the comm last, which is busy with this run;
        # where this name means nothing, nothing is changed by it
        self._comm._reply_subshell_for = lambda data, default: default  # type: ignore[attr-defined]
        self._comm.on_msg(self.hear)
        self._comm.on_close(self._refuse)
        open_runs.keep(comm_id, self)
        shell.events.register("post_run_cell", self._leave_cell)
        self._shell = shell
        self._thread = threading.Thread(target=self._keep_up, name="rlm_jupyter live cells", daemon=True)
        self._thread.start()

    @property
    def is_shown(self) -> bool:
        """Whether the page has said that it shows the cells."""
        return not self.refused and self._page in _greeted

    @property
    def has_buttons(self) -> bool | None:
        """Whether people at the page can approve a cell; `None`: a fast kernel proposed one before the page said so."""
        if self.refused:
            return False
        if self.is_shown and self.is_heard:
            return True
        seconds = _KNOWN_PAGE_SECONDS if self.is_shown else _NEW_PAGE_SECONDS
        return None if time.monotonic() - self._opened < seconds else False

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self._over.is_set()

    def __call__(self, event: Event) -> None:
        """Take in an event, from any thread; returns at once."""
        self.cells.apply(event)
        self._news.set()

    def steer(self, running: object) -> None:
        """Let people at the page do something to this run."""
        self.running = running
        self._control = getattr(running, "control", None)

    def end(self, path: Path | None = None, *, failed: bool = False, message: str = "") -> None:
        """Tell the last of it; `path` is the run's notebook."""
        if failed:
            self.cells.fail(message)
        self.cells.facts.keep(path)
        take_notes = getattr(self._control, "take_notes", None)
        unread = take_notes() if take_notes is not None else []
        if unread and self._noted is not None:
            self.cells.facts.asks.say(self._noted, "unread", "\n".join(unread))
        self._over.set()
        self._news.set()
        self._thread.join()
        self._tell()
        if self.is_shown:
            threading.Thread(target=self._say_again, name="rlm_jupyter live cells, the end", daemon=True).start()

    def close(self) -> None:
        """Hang up."""
        self._over.set()
        self._known_to_be_over.set()
        self._news.set()
        self._comm.close()

    def _keep_up(self) -> None:
        while not self._over.wait(REST_SECONDS):
            self._news.wait(_BEHIND_SECONDS if self.cells.is_behind else None)
            self._news.clear()
            self._tell()

    def _say_again(self) -> None:
        """Repeat the end until the page says that it has heard it."""
        for seconds in _AGAIN_SECONDS:
            if self._known_to_be_over.wait(seconds):
                return
            self._tell(always=True)

    def _tell(self, *, always: bool = False) -> None:
        with self._sending:
            self.cells.facts.keep(getattr(self._control, "notebook", None))
            items = self.cells.take()
            if always and not items:
                items = [{"item": "run", "facts": self.cells.facts.told(), "elapsed": self.cells.facts.elapsed}]
            if items and not self.refused:
                for part in in_parts(items):
                    self._comm.send(self._message({"items": part}))

    def _message(self, data: dict[str, Any]) -> dict[str, Any]:
        """Make the next message. It may not use `state` and `buffer_paths`: nbclient takes them for widgets."""
        message = {"v": VERSION, "run": self.cells.run, "seq": self._seq, **data}
        self._seq += 1
        return message

    def _resync(self, known: object) -> None:
        """Tell everything, less the cells that are done and the page knows."""
        with self._sending:
            since = self._seq
            self.cells.take()  # what is in the snapshot need not be told again
            snapshot = self.cells.snapshot({str(cell_id) for cell_id in known} if isinstance(known, list) else ())
            *before, last = in_parts({"item": "cell", "cell": cell} for cell in snapshot["cells"])
            for part in before:
                self._comm.send(self._message({"items": part}))
            cells = [item["cell"] for item in last]
            self._comm.send(self._message({"snapshot": {**snapshot, "cells": cells, "since": since}}))

    def hear(self, message: dict[str, Any]) -> None:
        """Take a message of the page; in a thread of its own, or once the cell is over."""
        data = message.get("content", {}).get("data", {})
        kind = data.get("type") if isinstance(data, dict) else None
        if kind == "resync":
            self._resync(data.get("known"))
        elif kind == "over":
            self._known_to_be_over.set()
        elif kind == "shown":
            self._is_asking_wanted = True
            self._tell_asking()
        elif kind == "check":
            # where this is not what the page expects next, it has missed something
            self._tell(always=True)
        elif kind == "asks":
            is_new = self._page not in _greeted
            _greeted.add(self._page)
            if is_new and self.on_shown is not None:
                self.on_shown()
            self.is_heard = not self._cell_is_over
            is_ready = self._control is not None or self._over.is_set()
            for ask in self.cells.facts.asks.new(data, most=None if is_ready else 0):
                self._do(ask)
            # also when all was heard before: then it is this that the page has missed
            self._tell(always=True)
        # the reply to any message ends in `idle`, and a page takes that for the whole kernel
        # weakly: ipykernel keeps a thread that has said something for a while after its end
        say_busy = weakref.WeakMethod(self._say_busy)
        timer = threading.Timer(_BUSY_SECONDS, lambda: (alive := say_busy()) and alive())
        timer.daemon = True
        timer.start()

    def _do(self, ask: dict[str, Any]) -> None:
        """Do what somebody asks for, once."""
        kind, cells = ask.get("type"), self.cells
        if kind in ("approve", "refuse") and ask.get("call") is not None:
            decide(self._control, cells.facts.call, ask)
        elif kind in ("approve", "refuse", "undo") and (ask.get("cell") is None or ask["cell"] != cells.proposed):
            # the second half of a double click: nobody has read the cell that waits now
            log.info("A decision meant another cell than the one that waits: it was passed over.")
        elif kind == "export":
            threading.Thread(target=self._export, args=(ask,), name="rlm_jupyter export", daemon=True).start()
        elif kind == "branch":
            threading.Thread(target=self._keep, args=[ask], name="rlm_jupyter branch", daemon=True).start()
        elif kind == "child":
            cells.show_child(str(ask.get("child")), is_open=ask.get("open") is True)
        elif self._control is not None:
            if kind == "approve" and isinstance(edited := ask.get("edited"), str):
                cells.amend(edited)
            try:
                is_done = act(self._control, ask)
            except (ConfigurationError, TypeError, ValueError) as error:
                cells.facts.asks.say(ask, "refused", str(error))
                return
            if kind == "limit" and is_done:
                cells.facts.limit(ask["name"], ask["value"])
            elif kind == "note":
                self._noted = ask

    def _keep(self, ask: dict[str, Any]) -> None:
        """Keep the run's kernel as it is, for the branch that somebody wants; a thread of its own has the time."""
        keep_for_branch(ask, self.cells.facts)
        self._tell(always=True)

    def _export(self, ask: dict[str, Any]) -> None:
        """Write the run as one file; a thread of its own has the time."""
        self.cells.facts.keep(getattr(self._control, "notebook", None))
        export(ask, self.cells.facts)
        self._tell(always=True)

    def _refuse(self, message: dict[str, Any]) -> None:
        self.refused = True
        _greeted.discard(self._page)

    def _say_busy(self) -> None:
        with self._cell_lock:
            publish = getattr(self._kernel, "_publish_status", None)
            if publish is not None and not self._cell_is_over:
                publish("busy", "shell", parent=self._parent)

    def _leave_cell(self, result: object) -> None:
        # the cells of a run with `--here` are executed within the one that asks, and end before it
        if getattr(getattr(result, "info", None), "cell_id", self._cell_id) != self._cell_id:
            return
        self._asking.leave(result)
        with self._cell_lock:
            self._cell_is_over = True
        self._shell.events.unregister("post_run_cell", self._leave_cell)
        self._tell_asking()

    def _tell_asking(self) -> None:
        """Tell what the cell that asked shows, once it is over and the page has asked."""
        with self._sending:
            if self._cell_is_over and self._is_asking_wanted and not self.refused:
                self._is_asking_wanted = False
                self._comm.send(self._message({"shown": self._asking.told()}))
