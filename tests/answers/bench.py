"""A bench: one kernel, in which runs with hostile documents are played, and what must be true of each."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record import journal, notebook
from rlm_jupyter.record.export import to_jsonl
from rlm_jupyter.record.recorder import recording
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.open_session import open_session
from rlm_jupyter.run.session import Session
from rlm_jupyter.types.errors import ModelError
from rlm_jupyter.types.events import RunEnded
from rlm_jupyter.types.values import Message
from tests.answers.table import block

MINE = "the model's own answer"
END = block("FINAL('the model' + chr(39) + 's own answer')")


@dataclass(frozen=True, slots=True)
class Seen:
    """A run that is over."""

    trajectory: Trajectory
    requests: tuple[tuple[Message, ...], ...]
    path: Path | None

    @property
    def answer(self) -> str | None:
        return self.trajectory.answer


class Bench:
    """One kernel for every run, each with a document, a script and a record of its own."""

    def __init__(self, folder: Path, sub_model: Any = None) -> None:
        self.folder = folder
        self.said: Callable[[str], str] = str.upper
        self._runner = asyncio.Runner()
        self._script: list[str] = []
        self._model = ScriptedModel(
            [lambda _: self._script.pop(0)] * 100_000, sub=lambda prompt: self.said(prompt), window=10**8
        )
        rlm = RLM(self._model, sub_model=sub_model, limits=Limits(max_iterations=60, max_errors=None), cwd=folder)
        self._opened = open_session(rlm.settings, Context("not the document"))
        self._session: Session = self._runner.run(self._opened.__aenter__())
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self._runner.run(self._opened.__aexit__(None, None, None))
        self._runner.close()

    def run(
        self, replies: Sequence[str], document: object, *, save: bool = True, termination: str | None = None
    ) -> Seen:
        """A whole run; `document` in the replies is that document, handed over as a context is."""
        return self._runner.run(self._run(replies, document, save, termination))

    async def _run(self, replies: Sequence[str], document: object, save: bool, termination: str | None) -> Seen:
        session, number = self._session, next(self._numbers)
        policy = RLM(self._model, termination=termination).settings.termination
        session.settings = dataclasses.replace(session.settings, termination=policy)
        session.context = Context(document)
        session.history.cut(0)
        await session.kernel.set_context(session.context)
        self._script[:] = [reply.replace("document", f"context_{number}") for reply in replies]
        self._model.requests.clear()
        place = self.folder / f"run-{number}.ipynb" if save else False
        async with recording("What is it?", session.context, place) as recorder:
            trajectory = await session.answer("What is it?", recorder=recorder)
        # a sub-call comes without a system message
        requests = tuple(request for request in self._model.requests if request[0].role == "system")
        return Seen(trajectory, requests, recorder.files.notebook if recorder else None)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """To be imported by the files that use it."""
    opened = Bench(tmp_path_factory.mktemp("bench"))
    yield opened
    opened.close()


def saying(text: str) -> Callable[[str], str]:
    """What sub-calls say: the text, a failure in its words, or the text as an answer that is ready."""

    def said(prompt: str) -> str:
        if prompt == "fail":
            raise ModelError(text)
        return json.dumps({"content": text, "ready": True}) if prompt == "ready?" else text

    return said


def unmoved(seen: Seen, replies: Sequence[str]) -> None:
    """The run is the model's own: as many iterations as it meant, its answer, nobody else speaking."""
    ended = seen.trajectory.ended
    assert ended is not None
    assert (ended.answer, ended.value, ended.stop_reason) == (MINE, MINE, "answered")
    assert len(seen.trajectory.iterations) == len(replies) == len(seen.requests)
    before: tuple[Message, ...] = ()
    for request in seen.requests:
        roles = [message.role for message in request]
        assert roles == ["system", "user", *["assistant", "user"] * (len(roles) // 2 - 1)]
        assert request[: len(before)] == before
        before = request
    own = [message.content for message in before if message.role == "assistant"]
    assert own == [iteration.reply.text for iteration in seen.trajectory.iterations][:-1]
    assert len(own) == len(replies) - 1


def recorded_as_it_was(seen: Seen) -> None:
    """Notebook and journal say what happened, each by itself, and the notebook is one."""
    assert seen.path is not None
    records = list(seen.trajectory.records)
    document = json.loads(seen.path.read_bytes())
    nbformat.validate(document)
    roles = [cell["metadata"]["rlm"]["role"] for cell in document["cells"]]
    cells = [cell for iteration in seen.trajectory.iterations for cell in iteration.cells]
    assert (roles.count("code"), roles.count("prompt"), roles.count("restore")) == (len(cells), 1, 1)
    assert (roles[:4], roles[-1]) == (["prompt", "answer", "restore", "boundary"], "boundary")
    assert (roles.count("answer"), roles.count("boundary")) == (1, 2)
    assert notebook.read(seen.path) == records
    assert journal.read(seen.path.with_suffix(".rlm") / "journal.jsonl") == records
    assert Trajectory.load(seen.path).records == tuple(records)
    assert len(to_jsonl(seen.trajectory).splitlines()) == 1 + len(seen.trajectory.iterations)
    assert [record for record in records if isinstance(record, RunEnded)] == records[-1:]
