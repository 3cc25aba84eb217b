"""The record of a session: how it is called, and how it is resumed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from rlm_jupyter.record import catalog, journal_lock
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.store import FOLDER, RunFiles, check_save_path, is_folder
from rlm_jupyter.replay.recorded_configuration import check_whole
from rlm_jupyter.replay.recorded_session import RecordedSession
from rlm_jupyter.run.session_past import SessionPrompt
from rlm_jupyter.run.settings import LedgerOf, Settings
from rlm_jupyter.types.errors import ConfigurationError, RecordError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.values import PackedContext

_NAME = re.compile(r"\w[\w-]{0,99}")


def in_session(settings: Settings, name: str, ledger: str) -> Settings:
    """Return the settings of the prompts of a session.

    Parameters
    ----------
    name
        Of the session, and of its record; empty: it has none.
    ledger
        What its limits hold for.

    Raises
    ------
    ConfigurationError
        That can't be its name, or something else has it, or its limits can't hold for that.
    """
    save = settings.save
    if ledger not in get_args(LedgerOf):
        raise ConfigurationError(f"ledger is {' or '.join(get_args(LedgerOf))}, not {quoted(ledger)}.")
    if name:
        check_name(name)
        save = save_path_of(settings.save, name)
        check_save_path(save)
    outputs = None if settings.outputs is None else settings.outputs.claimed()
    return replace(settings, outputs=outputs, save=save, session=name, ledger=cast(LedgerOf, ledger))


def check_name(name: object) -> None:
    """Refuse what can't be the name of a session.

    Raises
    ------
    ConfigurationError
        It has other characters than letters, digits, _ and -, or more than 100.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigurationError(f"The name of a session has letters, digits, _ and -, not {quoted(name)}.")


def save_path_of(save: str | Path | bool, name: str) -> str | Path | bool:
    """Return where the record of a session goes: by its name into the folder of runs, unless it is named by its path.

    Parameters
    ----------
    save
        As for `RLM`.
    """
    if save is False:
        return False
    if save is True:
        return Path(FOLDER) / f"{name}.ipynb"
    return Path(save) / f"{name}.ipynb" if is_folder(save) else save


def resumed_session(
    settings: Settings,
    run: str | Path,
    ledger: LedgerOf | None,
    make_room: Callable[[], list[str]] = list,
) -> RecordedSession:
    """Return a saved session, to be resumed: nothing is started before the next prompt.

    Parameters
    ----------
    run
        As for `last_prompt`.
    ledger
        `None`: as it was.
    make_room
        As for `RecordedSession`.

    Raises
    ------
    ConfigurationError
        It can't be resumed.
    RecordError
        There is no such session, or something of it is missing.
    """
    last = last_prompt(run)
    _check_last(last.files)
    answered = answered_in(last)
    options = last.trajectory.started.options
    settings = replace(settings, session=options.get("session", ""), ledger=ledger or options.get("ledger", "prompt"))
    contexts = last.contexts()
    first = contexts[0] if contexts else PackedContext("none")
    return RecordedSession(settings, first, answered, contexts[1:], make_room)


def _check_last(files: RunFiles) -> None:
    """Refuse a prompt that others came after: they would be lost to all that come later."""
    if (count := files.prompts()[-1].number) > files.number:
        root, name = files.root.name, files.prompt_name
        raise ConfigurationError(
            f"{name} is prompt {files.number} of {count} of its session: resume={root!r} goes on after the last one, "
            f"RLM.fork({name!r}) begins a new run from this one."
        )


def last_prompt(run: str | Path) -> SavedRun:
    """Read a saved run; of a session the prompt that is named, else the last (`catalog.find_prompts`).

    Raises
    ------
    ConfigurationError
        Another process has only just begun it.
    RecordError
        There is no such run, or it can't be read.
    """
    files = catalog.find_prompts(run)[-1]
    try:
        return SavedRun.load(files.notebook)
    except RecordError:
        if journal_lock.is_open(files.journal):  # there is no record yet while its kernel starts
            raise _still_going_on(files.prompt_name) from None
        raise


def _still_going_on(name: str) -> ConfigurationError:
    return ConfigurationError(f"{name} is still going on: another process is at work on it.")


def answered_in(last: SavedRun) -> list[SessionPrompt]:
    """Return the prompts of a saved session, up to this one.

    Raises
    ------
    ConfigurationError
        It is going on, or has not ended; or it is none that can be resumed.
    RecordError
        The record of an earlier one is missing.
    """
    check_whole(last)
    name, ended = last.files.prompt_name, last.trajectory.ended
    if not last.files.root.journal.is_file():
        raise ConfigurationError(
            f"{last.files.shown.name} is there without {last.files.root.folder.name}: it can be replayed, and "
            "not be resumed."
        )
    if last.is_open:
        raise _still_going_on(name)
    if ended is None:
        raise ConfigurationError(
            f"The last prompt of {name} was broken off: resume it first (jupyter rlm resume {name})."
        )
    runs = [*last.earlier(), (last, ended.stop_reason != "failed")]
    return [SessionPrompt(run.trajectory.run_id, run.files, in_history) for run, in_history in runs]
