"""The files that a run is to make: brought from its kernel, checked, kept with its record, and put in their place."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from rlm_jupyter.prompts import notices
from rlm_jupyter.run.artefacts import Outputs
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.detached import detached
from rlm_jupyter.types.errors import KernelDiedError, KernelError, LimitReached, PolicyError

_CHECK_SECONDS = 60.0
"""How long it may take to see whether the files open."""
_RESCUE_SECONDS = 5.0
"""How long a run that ends otherwise looks for those that are there."""
_MISSING = re.compile(r"^(.+?) is missing(?: in OUTPUTS;|: write it to ).*$")
"""What the model is told of a file that is not there."""
_T = TypeVar("_T")


async def check(run: Run, outputs: Outputs) -> tuple[str, dict[str, bytes]]:
    """Check the files as an answer is declared. Nothing is put anywhere: the answer itself may still be sent back.

    Returns
    -------
    tuple
        What the model is told of those that are not as they were asked for; while a record is played, what it was
        told. Empty: all are, and these are their contents.

    Raises
    ------
    LimitReached
        The time was up before they were looked at.
    """
    if run.is_replaying and run.playback is not None:
        return run.playback.wrong_files(), {}
    contents = await _fetched(run, outputs)
    try:
        async with run.ledger.deadline.in_time(), asyncio.timeout(_CHECK_SECONDS):
            reasons = [*(await detached(lambda: outputs.wrong(contents), "rlm_outputs")).values()]
    except LimitReached:
        run.replies.files_take_long = True
        raise
    except TimeoutError:
        reasons = [f"it took more than {_CHECK_SECONDS:.0f} s to open them: make them simpler"]
    if reasons:
        return notices.WRONG_FILES + "".join(f"\n- {reason}" for reason in reasons) + notices.MEND_FILES, {}
    return "", {name: content for name, content in contents.items() if isinstance(content, bytes)}


def listed(text: str) -> list[str]:
    """Return what is wrong, a line each and for people, in what the model was told (`check`)."""
    return [_for_people(line[2:]) for line in text.splitlines() if line.startswith("- ")]


def _for_people(reason: str) -> str:
    """Return what is wrong with a file without what the model is to do about it."""
    return _MISSING.sub(r"\1 was not written", reason)


async def deliver(run: Run, outputs: Outputs) -> None:
    """Keep a run's files and put them where the caller wants them, once, as it ends.

    Those of an accepted answer; of a run that ends otherwise, those that are as they were asked for, which replace
    nothing of the user's. What is wrong with the others is a remark of the run.
    """
    if run.replies.accepted:
        await _keep(run, outputs, run.replies.accepted)
        outputs.folder.leave()
        return
    if not run.is_replaying:
        contents, run.replies.wrong_files = await _sound(run, outputs)
        if contents:
            await _keep(run, replace(outputs, replace=False), contents)
    outputs.folder.leave()
    _remark(run, run.replies.wrong_files)


async def _sound(run: Run, outputs: Outputs) -> tuple[dict[str, bytes], list[str]]:
    """Return those files that are as they were asked for, as far as they are seen in time, and what of the rest."""
    contents: dict[str, bytes | str] = {}
    try:
        async with asyncio.timeout(0 if run.replies.files_take_long else _RESCUE_SECONDS):
            contents = await _fetched(run, outputs)
            wrong = await detached(lambda: outputs.wrong(contents), "rlm_outputs")
    except PolicyError as error:
        return {}, [str(error).rstrip(".")]
    except (KernelError, TimeoutError):
        return {}, [f"{one.name} could not be looked at as the run ended" for one in outputs.artefacts]
    sound = {name: content for name, content in contents.items() if isinstance(content, bytes) and name not in wrong}
    return sound, [_for_people(reason) for reason in wrong.values()]


def _remark(run: Run, lines: Sequence[str]) -> None:
    if lines:
        said = filter(None, [run.ledger.remarks.get("outputs"), *lines])
        run.ledger.remarks["outputs"] = "; ".join(said)


async def _fetched(run: Run, outputs: Outputs) -> dict[str, bytes | str]:
    """Return each file's bytes by its name, or what is wrong with it; they are all in memory at once, so bounded."""
    contents: dict[str, bytes | str] = {}
    left = outputs.most_bytes
    for one in outputs.artefacts:
        most = min(one.max_bytes, left)
        try:
            content = await run.kernel.output(one.name, most)
        except KernelDiedError:
            content = "is gone: the kernel died"
        except KernelError as error:
            content = f"can't be read: {error}"
        if isinstance(content, bytes):
            left -= len(content)
        elif most < one.max_bytes and content.startswith("has "):  # more bytes than are left
            content += f" here, because all files together may have {outputs.most_bytes:,}"
        contents[one.name] = content
    return contents


async def _keep(run: Run, outputs: Outputs, contents: Mapping[str, bytes]) -> None:
    """Keep files with the run's record, and put them where the caller wants them."""
    recorder = run.event_log.recorder
    notes: list[str] = []

    def keep() -> None:
        if recorder is not None:
            for content in contents.values():
                recorder.attempt(partial(recorder.files.put, content))
        run.replies.files = outputs.put(contents, notes.append)

    await _whole(keep)
    _remark(run, notes)


async def _whole(call: Callable[[], _T]) -> _T:
    """Make the call in a thread, and see it through, also where the run is cancelled meanwhile."""
    return await asyncio.shield(detached(call, "rlm_outputs"))
