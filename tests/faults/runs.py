"""Runs that are struck: short, and yet everything happens in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record import journal, notebook
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.run.control import Control
from rlm_jupyter.types.events import RunEnded
from rlm_jupyter.types.values import Message
from tests.support.streamed import Streamed


def block(*lines: str) -> str:
    return "I work.\n```repl\n{}\n```".format("\n".join(lines))


ROOT = [
    block("parts = llm_query_batched(['a', 'b', 'c'])", "print(parts)"),
    block("first = await allm_query('d')", "second = rlm_query('a part')", "answer['content'] = first"),
    block("print(len(context))", "FINAL(second)"),
]
PROSE = "Then I read what it shows, and say what it means.\n" * 12
CHILD = [block("print(llm_query('e'))"), block("FINAL('of the child')")]


class Parts(ScriptedModel):
    """Replies by who asks and how far the conversation is; waits a little, as servers do."""

    def __init__(self, latency: float = 0.003) -> None:
        super().__init__([], latency=latency)

    def _next(self, messages: Sequence[Message]) -> Any:
        if len(messages) == 1:
            return f"about {messages[0].content}"
        script = CHILD if "`context` is a str: 6 characters" in messages[1].content else ROOT
        return script[min(len(messages) // 2 - 1, len(script) - 1)]


class Endless(Parts):
    """Never comes to an end: a batch, a child, and cells that sleep."""

    def __init__(self) -> None:
        super().__init__(latency=0.02)

    def _next(self, messages: Sequence[Message]) -> Any:
        if len(messages) > 1 and "`context` is a str: 6 characters" not in messages[1].content:
            return [*ROOT[:2], block(f"import time; time.sleep(0.2) # {len(messages)}")][len(messages) // 2 % 3]
        return super()._next(messages)


async def whole(folder: Path, control: Control | None = None) -> Any:
    """A run with a batch, an awaited sub-call, a child with one of its own, and an answer; saved in `folder`."""
    limits = Limits(max_depth=2)
    rlm = RLM(Parts(), limits=limits, save=folder / "run.ipynb")
    return await rlm.acompletion("What?", "some longer text " * 20, control=control)


async def streamed(folder: Path, control: Control | None = None) -> Any:
    """A run whose cells begin while the model still writes; saved in `folder`."""
    replies = [
        block("import time; time.sleep(0.05)", "print(llm_query_batched(['a', 'b']))"),
        block("print(len(context)); time.sleep(0.05)"),
        block("print('done')", "FINAL(len(context))"),
    ]
    model = Streamed([f"{reply}\n{PROSE}" for reply in replies], chars=60, seconds=0.005)
    return await RLM(model, save=folder / "run.ipynb").acompletion("What?", "some longer text " * 200, control=control)


def check_record(folder: Path) -> RunEnded | None:
    """That what is on disk is a whole record, or that there is none; how it says that the run ended."""
    files = RunFiles(folder / "run.ipynb")
    assert not list(folder.rglob("*.tmp"))
    if not files.folder.exists():
        assert not files.notebook.exists()
        return None
    records = journal.read(files.journal)
    nbformat.validate(nbformat.read(files.notebook, as_version=4))
    assert notebook.read(files.notebook) == records
    assert isinstance(records[-1], RunEnded)
    return records[-1]
