"""`FromRecord`: the ways in which `RLM` goes on from a saved run."""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rlm_jupyter.run.control import Control
from rlm_jupyter.run.result import OnEvent, Result
from rlm_jupyter.run.run_handle import RunHandle, waited
from rlm_jupyter.run.settings import Settings
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.limits import Limits
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.suggestion import closest, did_you_mean

if TYPE_CHECKING:  # a run that begins anew loads nothing of this
    from rlm_jupyter.record.saved_run import SavedRun
    from rlm_jupyter.replay.fork import RunFork
    from rlm_jupyter.replay.replay import Replayed
    from rlm_jupyter.replay.resume import Resumption


class FromRecord(ABC):
    """What makes an `RLM` of a saved run, and runs it."""

    @abstractmethod
    def __init__(self, model: Any, **options: Any) -> None:
        """Make it as `RLM` is made: a saved run gives it a model's name and options."""

    @property
    @abstractmethod
    def settings(self) -> Settings:
        """The configuration, resolved."""

    @classmethod
    def resume(
        cls, run: str | Path, *, reexecute: bool = True, on_event: OnEvent | None = None, **changes: Any
    ) -> Result:
        """Resume a saved run that was broken off, or that met a limit; works in a script and in a notebook.

        Its cells are executed again, with their side effects; their sub-calls are answered from the record, and no
        reply is paid for twice. Where a cell gives other outputs now, the model is told. The record goes on where it
        is, and so does the bill.

        Parameters
        ----------
        run
            Its id, its name, or the path of its notebook or folder; of a session they stand for its last prompt.
        reexecute
            `False`: start with an empty kernel, and tell the model so.
        on_event
            Told every event, those of the record first; `CellReplayed` says how a cell differs.
        changes
            Options of `RLM` (a model, say) and fields of `Limits` that are to be others: `max_iterations=60`. A
            key that was passed as `api_key` is in no record: pass it again.

        Raises
        ------
        ConfigurationError
            It has its answer, it is still going on, its limit was not raised, or a change is not possible.
        RecordError
            There is no such run, or its context is missing.
        """
        saved, going_on = cls._taking_up(run, reexecute, changes)
        start = partial(RunHandle, going_on, saved.trajectory.started.prompt)
        return waited(start, on_event, going_on.settings, close=True)

    @classmethod
    async def aresume(
        cls,
        run: str | Path,
        *,
        reexecute: bool = True,
        on_event: OnEvent | None = None,
        control: Control | None = None,
        **changes: Any,
    ) -> Result:
        """Do what `resume` does, to be awaited; `control` as for `acompletion`."""
        saved, going_on = cls._taking_up(run, reexecute, changes)
        going_on.expect(control or Control())
        return await going_on.answer(saved.trajectory.started.prompt, on_event, control)

    @classmethod
    def fork(
        cls,
        run: str | Path,
        at: int | None = None,
        *,
        edit: bool = False,
        reexecute: bool = True,
        on_event: OnEvent | None = None,
        **changes: Any,
    ) -> Result:
        """Begin a new run with the first iterations of a saved one.

        Parameters
        ----------
        at
            How many iterations are taken over. Default: all but the last; with `edit`, up to the one that was edited.
        edit
            Take the cells as a person edited them in the saved notebook, and go on from the first of them.
        run, reexecute, on_event, changes
            As for `resume`; `save=` says where the new run goes.

        Raises
        ------
        ConfigurationError
            There is no such iteration, nothing was edited, or a change is not possible.
        RecordError
            There is no such run, or its context is missing.
        """
        saved, forking = cls._forking(run, at, edit, reexecute, changes)
        start = partial(RunHandle, forking, saved.trajectory.started.prompt)
        return waited(start, on_event, forking.settings, close=True)

    @classmethod
    async def afork(
        cls,
        run: str | Path,
        at: int | None = None,
        *,
        edit: bool = False,
        reexecute: bool = True,
        on_event: OnEvent | None = None,
        control: Control | None = None,
        **changes: Any,
    ) -> Result:
        """Do what `fork` does, to be awaited; `control` as for `acompletion`."""
        saved, forking = cls._forking(run, at, edit, reexecute, changes)
        forking.expect(control or Control())
        return await forking.answer(saved.trajectory.started.prompt, on_event, control)

    @staticmethod
    def replay(
        run: str | Path,
        *,
        sandbox: str | None = None,
        kernel: str | None = None,
        token: str | None = None,
        on_event: OnEvent | None = None,
    ) -> Replayed:
        """Execute a saved run again without any model, and compare what comes out: a recorded run as a test.

        Its cells run, with their side effects; replies and sub-calls come from the record. Nothing is written.

        Parameters
        ----------
        sandbox
            Another than the run had.
        kernel, token
            As for `RLM`: a run whose kernel was on a server is given one again, or `local`.
        run, on_event
            As for `resume`.

        Raises
        ------
        RecordError
            There is no such run, or its context is missing.
        """
        from rlm_jupyter.replay import replay as replaying

        return replaying.replay(run, sandbox=sandbox, kernel=kernel, token=token, on_event=on_event)

    @staticmethod
    async def areplay(
        run: str | Path,
        *,
        sandbox: str | None = None,
        kernel: str | None = None,
        token: str | None = None,
        on_event: OnEvent | None = None,
    ) -> Replayed:
        """Do what `replay` does, to be awaited."""
        from rlm_jupyter.replay import replay as replaying

        return await replaying.areplay(run, sandbox=sandbox, kernel=kernel, token=token, on_event=on_event)

    @classmethod
    def _taking_up(cls, run: str | Path, reexecute: bool, changes: dict[str, Any]) -> tuple[SavedRun, Resumption]:
        from rlm_jupyter.replay.resume import Resumption, check_resumable
        from rlm_jupyter.replay.session_record import last_prompt

        saved = last_prompt(run)
        check_resumable(saved, None)
        settings = cls._of_saved(saved, changes).settings
        return saved, Resumption(saved, settings, reexecutes=reexecute)

    @classmethod
    def _forking(
        cls, run: str | Path, at: int | None, edit: bool, reexecute: bool, changes: dict[str, Any]
    ) -> tuple[SavedRun, RunFork]:
        from rlm_jupyter.replay.fork import OF_EACH_FORK, RunFork, forked
        from rlm_jupyter.replay.session_record import last_prompt

        if at is not None and (isinstance(at, bool) or not isinstance(at, int)):
            raise ConfigurationError(f"at is a number of iterations, not {quoted(at)}.")
        saved = last_prompt(run)
        part = forked(saved, at, edit=edit)
        settings = cls._of_saved(saved, OF_EACH_FORK | changes).settings
        return saved, RunFork(saved, part, settings, reexecutes=reexecute)

    @classmethod
    def _of_saved(cls, saved: SavedRun, changes: dict[str, Any]) -> Self:
        from rlm_jupyter.replay.recorded_configuration import configuration

        found = configuration(saved, changes)
        try:
            return cls(found.model, **found.options)
        except TypeError as error:
            known = [*inspect.signature(cls.__init__).parameters][1:] + [one.name for one in dataclasses.fields(Limits)]
            if unknown := [name for name in changes if name not in known]:
                meant = did_you_mean(closest(unknown[0], known))
                raise ConfigurationError(f"There is no option {unknown[0]!r}.{meant}") from None
            raise ConfigurationError(f"That can't be changed: {error}.") from None
