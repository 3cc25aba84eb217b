"""`jupyter rlm run --session NAME`: one more prompt in the session that is kept under this name."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.frontends.cli import terminal
from rlm_jupyter.frontends.cli.consent import consent
from rlm_jupyter.frontends.cli.outcome import answered
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.suggestion import closest

if TYPE_CHECKING:
    from rlm_jupyter.record.saved_run import SavedRun
    from rlm_jupyter.rlm import RLM
    from rlm_jupyter.run.context import Context

_CLOSE = 0.8
"""How alike two sessions' names are, 0 to 1, where one may have been meant for the other."""


def kept_session(args: Namespace, save: str | bool) -> SavedRun | None:
    """Return the last prompt of the session that is named, and take from it what the arguments leave open.

    Returns
    -------
    SavedRun or None
        `None`: none is named, or it is to be begun.

    Raises
    ------
    ConfigurationError
        It was begun with another model, or in another sandbox; or nothing is to be saved.
    """
    if args.session is None:
        if args.ledger is not None:
            raise ConfigurationError("--ledger is about the prompts of a session: name it with --session.")
        return None
    from rlm_jupyter.record.store import FOLDER, RunFiles
    from rlm_jupyter.replay.recorded_address import check_given
    from rlm_jupyter.replay.session_record import answered_in, check_name, last_prompt, save_path_of

    check_name(args.session)
    saved_at = save_path_of(save, args.session)
    if isinstance(saved_at, bool):
        raise ConfigurationError("--session resumes what is saved: leave --no-save out.")
    if not RunFiles(Path(saved_at).absolute()).exists():
        usual = RunFiles((Path(FOLDER) / f"{args.session}.ipynb").absolute())
        if usual.exists() and usual.notebook != Path(saved_at).absolute():
            raise ConfigurationError(
                f"The session {args.session} is kept in {usual.notebook}: leave --save out, or begin another."
            )
        return None
    last = last_prompt(Path(saved_at).absolute())
    answered_in(last)  # whether it can be resumed
    for option in ("schema", "output", "output_dir", "samples", "require_agreement", "strategy"):
        if getattr(args, option):
            raise ConfigurationError(
                f"Only the first prompt of a session takes --{option.replace('_', '-')}: leave it out, or ask without "
                "--session."
            )
    started = last.trajectory.started
    check_given(started.options, _given(args, "model", "base_url"), started.model, started.model)
    _take(args, "model", started.model)
    _take(args, "sub_model", started.sub_model if started.sub_model != started.model else None)
    _take(args, "sandbox", started.options.get("sandbox", {}).get("kind"))
    _take(args, "container_image", started.options.get("sandbox", {}).get("image"))
    if (before := started.options.get("kernel_url")) != args.kernel_url:
        # not taken from the record: the token would go to whatever address stands in it
        raise ConfigurationError(
            f"The session {args.session} was begun "
            + (f"with --kernel-url {before}: give it again." if before else "without --kernel-url: leave it out.")
        )
    _take(args, "ledger", started.options.get("ledger", "prompt"))
    for option in ("read", "write"):
        _take_folders(args, option, started.options.get("sandbox", {}).get(option, []))
    return last


def answered_in_session(args: Namespace, rlm: RLM, kept: SavedRun | None, prompt: str, context: Context) -> int:
    """Ask in a session, print what came of it, and end its kernel; returns the exit code.

    Parameters
    ----------
    kept
        As `kept_session` gave it.
    """
    if kept is None:
        session = rlm.session(context, name=args.session, ledger=args.ledger)
        if not args.quiet:
            terminal.say(f"Session {args.session}: a new one.{_like(args.session)}")
    else:
        consent(args, kept, kept.cells_again)
        session = rlm.session(resume=kept.files.notebook)
        if not args.quiet:
            terminal.say(f"Session {args.session}: goes on after prompt {kept.files.number}.")
    with session:
        if (
            kept is not None
            and context.kind != "none"
            and context.info.sha256 != session.kernel.past.context.info.sha256
        ):
            session.add_context(context)
        save = session.kernel.settings.save
        return answered(args, lambda tell, *, approve: session.start(prompt, on_event=tell, approve=approve), save)


def _given(args: Namespace, *names: str) -> dict[str, str]:
    return {name: value for name in names if (value := getattr(args, name)) is not None}


def _take_folders(args: Namespace, name: str, before: list[str]) -> None:
    """Take what the sandbox of the session shows: its cells are executed again, and look there."""
    given = {str(Path(path).expanduser().absolute()) for path in getattr(args, name) or ()}
    if given - set(before):
        was = f"with --{name} {' '.join(before)}" if before else f"without --{name}"
        raise ConfigurationError(f"The session {args.session} was begun {was}: leave --{name} out, or begin another.")
    setattr(args, name, before)


def _take(args: Namespace, name: str, before: str | None) -> None:
    """Take an option of the session, where the arguments leave it open."""
    given = getattr(args, name)
    if given not in {None, before}:
        flag = f"--{name.replace('_', '-')}"
        was = f"with {flag} {before}" if before else f"without {flag}"
        raise ConfigurationError(f"The session {args.session} was begun {was}: leave {flag} out, or begin another.")
    setattr(args, name, before)


def _like(name: str) -> str:
    """Name the session that may have been meant, where one of a name that comes near is kept in the usual folder."""
    from rlm_jupyter.record.store import FOLDER

    near = closest(name, (path.stem for path in Path(FOLDER).glob("*.ipynb")), _CLOSE)
    return f" There is {near}, too." if near else ""
