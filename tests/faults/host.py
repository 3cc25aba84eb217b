"""A host that is killed: a run over HTTP with many sub-calls in flight, which notes what it has received.

`python -m tests.faults.host URL NOTEBOOK LOG`
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models import load_model
from rlm_jupyter.types.values import Message, Reply


class Noting:
    """A model that writes down every reply at the moment when it is there; nothing waits in this process."""

    def __init__(self, model: Any, log: int) -> None:
        self._model, self._log = model, log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
        reply: Reply = await self._model.complete(messages, **options)
        now = [time.monotonic(), time.process_time()]
        os.write(self._log, json.dumps([*now, reply.text]).encode() + b"\n")
        return reply


async def main(url: str, notebook: str, log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    model = Noting(load_model("openai/some-model", base_url=url, api_key="some-key"), file)
    limits = Limits(max_depth=2, max_iterations=1_000)
    await RLM(model, limits=limits, save=Path(notebook)).acompletion("What?", "some longer text " * 20)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
