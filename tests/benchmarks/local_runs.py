"""`make_run`: one task, one system, one process; and the line that stays of it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

from tests.benchmarks.local_drivers.job import Job
from tests.benchmarks.recorder import Asked, Recorder
from tests.benchmarks.worker import ROOT

_GOODBYE_SECONDS = 10.0
_LEAST_WORDS = 30
"""Characters of a sentence that nobody writes by chance."""


class Graded(Protocol):
    """A question that knows what is right."""

    @property
    def name(self) -> str:
        """Of its kind."""

    @property
    def prompt(self) -> str:
        """What is asked."""

    @property
    def context(self) -> str:
        """What it is asked about, as text."""

    @property
    def form(self) -> str:
        """How that is handed over: `Job.form`."""

    @property
    def answer(self) -> str:
        """What is right, in words."""

    def score(self, answer: object) -> float:
        """Grade an answer, from 0.0 to 1.0."""


@dataclass(frozen=True)
class Run:
    """What a run came to. It is one line of JSON in `runs.jsonl`."""

    system: str
    seed: int
    task: str
    model: str
    max_iterations: int
    right: bool
    expected: str
    answer: str | None
    raised: bool
    """The process ended by an exception, or the run says itself that something broke it."""
    error: str
    """The last line of what it wrote then; else why the run ended, when that is not plain."""
    late: bool
    """It was ended from outside, when its time was up."""
    own_words: bool
    """The answer repeats the question, or what the system itself wrote into the prompt."""
    iterations: int
    circle: int
    """How many iterations in a row had the same reply, at most."""
    requests: int
    read: int
    """Tokens of prompts that the server read; cached ones are counted apart."""
    cached: int
    written: int
    later_read: int
    """All tokens of the loop's prompts from the second request on, cached ones included."""
    later_cached: int
    uncounted: int
    """Requests that were broken off and whose prompt nobody has counted."""
    seconds: float
    stop_reason: str = ""
    score: float = 0.0
    """From 0.0 to 1.0: a near miss may count in part."""
    confidence: float | None = None
    """What the system says of its answer, where it says something."""
    aids: Sequence[str] = ()
    """Those of ours that came up, by their names (`local_drivers.aids`)."""

    @property
    def key(self) -> tuple[str, int, str, str, int]:
        """What may not be compared with what has another one."""
        return self.system, self.seed, self.task, self.model, self.max_iterations

    @property
    def line(self) -> str:
        """As it is kept."""
        return json.dumps(asdict(self)) + "\n"


def kept_runs(path: Path) -> Iterator[Run]:
    """Those of an earlier comparison; a last line that was cut off is none."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield Run(**json.loads(line))


async def make_run(
    system: str, command: Sequence[str], task: Graded, seed: int, settings: dict[str, Any], folder: Path, seconds: float
) -> Run:
    """Let a system answer a question, in a fresh process, behind a proxy that counts.

    Parameters
    ----------
    command
        What runs its driver.
    settings
        `base_url`, `provider`, `model` and `max_iterations`, as a job has them.
    folder
        What is kept of the run; what was there is gone.
    seconds
        When its time is up.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    async with Recorder(settings["base_url"]) as recorder:
        job = Job(str(folder), task.prompt, **{**settings, "base_url": recorder.url}, form=task.form)
        began = time.monotonic()
        code, late = await _wait(command, job.write(task.context), folder, seconds)
        took = time.monotonic() - began
    (folder / "context.txt").unlink(missing_ok=True)  # the seed has it
    _keep(folder, recorder.asked)
    told = _told(folder)
    roots = [asked for asked in recorder.asked if asked.is_root]
    replies = told.get("replies") or [asked.reply for asked in roots if asked.status == 200]
    replies = replies[: settings["max_iterations"]]
    answer = None if late or code else told.get("answer")
    later = [asked for asked in roots[1:] if asked.read is not None and asked.cached is not None]
    return Run(
        system,
        seed,
        task.name,
        settings["model"],
        settings["max_iterations"],
        right=(score := task.score(answer)) == 1.0,
        expected=task.answer,
        answer=answer,
        raised=not late and (bool(code) or told.get("stop_reason") == "failed"),
        error=_last_line(folder / "log.txt") if code else told.get("message", ""),
        late=late,
        own_words=answer is not None and _is_own(answer, task, recorder.asked),
        iterations=len(replies),
        circle=max((len(list(same)) for _, same in groupby("".join(reply.split()) for reply in replies)), default=0),
        requests=len(recorder.asked),
        read=sum((asked.read or 0) - (asked.cached or 0) for asked in recorder.asked),
        cached=sum(asked.cached or 0 for asked in recorder.asked),
        written=sum(asked.written for asked in recorder.asked),
        later_read=sum(asked.read or 0 for asked in later),
        later_cached=sum(asked.cached or 0 for asked in later),
        uncounted=sum(asked.status in {0, 200} and asked.read is None for asked in recorder.asked),
        seconds=round(took, 2),
        stop_reason=told.get("stop_reason", ""),
        score=round(score, 3),
        confidence=told.get("confidence"),
        aids=told.get("aids", ()),
    )


async def _wait(command: Sequence[str], job: Path, folder: Path, seconds: float) -> tuple[int, bool]:
    """The exit code, and whether it had to be ended."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "RLM_FIND_SERVERS": "0"}
    with (folder / "log.txt").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            str(job),
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            return await asyncio.wait_for(process.wait(), seconds), False
        except TimeoutError:
            return await _ended(process), True
        except asyncio.CancelledError:
            await _ended(process)
            raise


async def _ended(process: asyncio.subprocess.Process) -> int:
    for sent in (signal.SIGTERM, signal.SIGKILL) if sys.platform != "win32" else (signal.SIGTERM,):
        if sys.platform == "win32":
            process.terminate()
        else:
            os.killpg(process.pid, sent)
        try:
            return await asyncio.wait_for(process.wait(), _GOODBYE_SECONDS)
        except TimeoutError:
            continue
    return await process.wait()


def _told(folder: Path) -> dict[str, Any]:
    path = folder / "told.json"
    return json.loads(path.read_text()) if path.exists() else {}


def _keep(folder: Path, asked: Sequence[Asked]) -> None:
    with (folder / "requests.jsonl").open("w") as file:
        file.writelines(json.dumps(asdict(one)) + "\n" for one in asked)


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1][:300] if lines else ""


def _is_own(answer: str, task: Graded, asked: Sequence[Asked]) -> bool:
    """Whether an answer holds a sentence that neither the model nor the text came up with, but the system or we did.

    The system's words are its system message, the prompt that goes with it, and a last message that it put into the
    model's mouth.
    """
    said = _plain(answer)
    if _plain(task.prompt) in said:
        return True
    own: list[str] = []
    for one in asked:
        texts = [_text(message) for message in one.messages]
        if one.messages and one.messages[-1].get("role") == "assistant":
            own.append(texts[-1])
        if one.is_root:
            own += texts[:2]
    known = _plain(task.prompt) + _plain(task.context)
    return any(words in said and words not in known for text in set(own) for words in _sentences(text))


def _sentences(text: str) -> set[str]:
    pieces = {_plain(piece) for line in text.splitlines() for piece in line.replace("? ", ". ").split(". ")}
    return {piece for piece in pieces if len(piece) >= _LEAST_WORDS}


def _plain(text: str) -> str:
    return " ".join("".join(sign if sign.isalnum() else " " for sign in text.lower()).split())


def _text(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(str(part.get("text", "")) for part in content)
