"""`KernelVariables`: the kernel's variables, as a policy sees them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from rlm_jupyter.run.state import Run
from rlm_jupyter.types.errors import KernelError

PATIENCE = 30.0
"""Seconds that a policy waits for a variable, and that it may take to begin and to end."""


class KernelVariables(Mapping[str, Any]):
    """Each is fetched when it is looked up.

    Values are plain data where they are JSON-able, else text. To be read from another thread than the run's.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._loop = asyncio.get_running_loop()
        self._names = {variable.name: None for variable in run.cell_state.variables}

    def __getitem__(self, name: str) -> Any:
        # a kept kernel answers another prompt when the run is over
        if name not in self._names or self._run.trajectory.ended is not None:
            raise KeyError(name)
        coroutine = self._run.kernel.get(name)
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError as error:  # the loop is closed
            coroutine.close()
            raise KeyError(name) from error
        try:
            value = future.result(PATIENCE)
        except (KernelError, TimeoutError) as error:
            future.cancel()
            raise KeyError(name) from error
        return value.json if value.is_json else value.text

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
