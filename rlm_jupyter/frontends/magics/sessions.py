"""`Sessions`: the sessions of a notebook by name, which the cells with `--session NAME` share."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rlm_jupyter.frontends.magics.kernels import KeptKernels
from rlm_jupyter.frontends.run_options import options_of
from rlm_jupyter.record import journal
from rlm_jupyter.record.catalog import RunSummary
from rlm_jupyter.record.store import name_from_here
from rlm_jupyter.replay.recorded_session import RecordedSession
from rlm_jupyter.run import background
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.events import RunEnded
from rlm_jupyter.types.quoted import quoted

_OF_A_CELL = {"session", "result", "rerun", "approve", "background", "estimate"}
"""What each cell of a session says for itself."""


@dataclass
class NamedSession:
    """A session of a notebook."""

    kernel: RecordedSession
    options: Namespace
    """Of the cell that began it."""
    cells: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    """By the cell that asked: its prompt, the digest of its context, and which prompt of the session it was."""

    @property
    def has_begun(self) -> bool:
        """Whether something was asked, or is being asked."""
        return bool(self.kernel.past.answered) or self.kernel.in_use

    def check(self, options: Namespace) -> None:
        """Refuse options of a later cell that are others than those of the first.

        Raises
        ------
        ConfigurationError
            The first that is.
        """
        for option in options_of("magic"):
            given = getattr(options, option.name, None)
            if option.name in _OF_A_CELL or not given:
                continue
            if given != (before := getattr(self.options, option.name, None)):
                flag = option.flags[-1]
                was = f"with {flag} {before}" if before and option.kind is not bool else f"without {flag}"
                raise ConfigurationError(
                    f"The session {quoted(options.session)} was begun {was}: leave {flag} out, or begin another."
                )

    def recorded(self, cell_id: str, prompt: str, context: Context | None) -> RunSummary | None:
        """Return what a cell has got, where it has asked just this already: then it is executed again."""
        before = self.cells.get(cell_id)
        if not cell_id or before is None or before[:2] != (prompt, _digest(context)):
            return None
        asked = self.kernel.past.answered[before[2] : before[2] + 1]
        files = asked[0].files if asked else None
        ends = None if files is None else journal.read_ends(files.journal)
        if files is None or ends is None or not isinstance(ended := ends[1], RunEnded) or ended.answer is None:
            return None
        return RunSummary(files, ends[0], ended)

    def note(self, cell_id: str, prompt: str, context: Context | None) -> None:
        """Take note of which cell asks the next prompt."""
        if cell_id:
            self.cells[cell_id] = prompt, _digest(context), len(self.kernel.past.answered)

    def take(self, context: Context | None) -> None:
        """Make it the newest context, unless it is that already.

        Raises
        ------
        ConfigurationError
            A prompt is being answered.
        ContextError
            The kernel can't load it.
        """
        if context is not None and context.info.sha256 != self.kernel.past.context.info.sha256:
            background.submit(self.kernel.add_context(context)).result()


class Sessions:
    """The sessions of a notebook, by their name.

    Parameters
    ----------
    kept
        Counts their kernels among those that are kept.
    """

    def __init__(self, kept: KeptKernels) -> None:
        self._kept = kept
        self._named: dict[str, NamedSession] = {}

    def find(self, options: Namespace) -> NamedSession | None:
        """Return the session that a cell names; `None`: the cell begins it.

        Raises
        ------
        ConfigurationError
            It has ended, or was begun with other options.
        """
        found = self._named.get(options.session)
        if found is None or not found.has_begun:
            return None  # of one that came to nothing, there is nothing to keep
        found.check(options)
        if found.kernel.closed or found.kernel.given_up:
            found.kernel = self._again(options.session, found.kernel)
        return found

    def begin(self, options: Namespace, settings: Settings, context: Context) -> NamedSession:
        """Begin a session; nothing is started before its first prompt."""
        begun = NamedSession(RecordedSession(settings, context, make_room=self._make_room), options)
        self._enter(options.session, begun)
        return begun

    def _again(self, name: str, ended: RecordedSession) -> RecordedSession:
        """Return what resumes a session whose kernel was closed for want of use."""
        why, past = ended.why_closed or ended.given_up, ended.past
        if any(one.files is None for one in past.answered):
            because = f" ({why}, and it is not saved)" if why else ""
            raise ConfigurationError(f"The session {quoted(name)} has ended{because}: take another name.")
        if not why:
            record = name if past.first is None else name_from_here(past.first.notebook)
            raise ConfigurationError(
                f"The session {quoted(name)} has ended: take another name, or resume it from its record "
                f"by RLM(…).session(resume={record!r})."
            )
        kernel = RecordedSession(ended.settings, past.opening, past.answered, past.given[1:], self._make_room)
        self._kept.add_session(name, kernel)
        return kernel

    def _enter(self, name: str, session: NamedSession) -> None:
        self._named[name] = session
        self._kept.add_session(name, session.kernel)

    def _make_room(self) -> list[str]:
        return self._kept.make_room(1)


def cell_id(shell: Any) -> str:
    """Return the id of the cell that is being executed, where the front end tells it."""
    get_parent: Callable[[], Any] | None = getattr(getattr(shell, "kernel", None), "get_parent", None)
    parent = get_parent() if get_parent is not None else None
    found = ((parent or {}).get("metadata") or {}).get("cellId")
    return found if isinstance(found, str) else ""


def _digest(context: Context | None) -> str:
    return "" if context is None else context.info.sha256
