"""One real kernel, in which one case after another is executed."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.run import background
from rlm_jupyter.types.values import CellRun, Inspection, Subcall, SubcallFailure, Value

_PATIENCE = 60.0
SAY = "say "


async def _answer(call: Subcall) -> list[str | SubcallFailure]:
    """Says what it is told to; `fail` fails."""
    return [SubcallFailure("it failed") if p == "fail" else p.removeprefix(SAY) for p in call.prompts]


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of some cells."""

    runs: tuple[CellRun, ...]
    inspection: Inspection
    value: Value | None

    @property
    def answer(self) -> str | None:
        return None if self.value is None else self.value.text

    @property
    def told(self) -> str:
        """What the model would be told."""
        errors = [
            f"{output['ename']}: {output['evalue']}"
            for run in self.runs
            for output in run.outputs
            if output["output_type"] == "error"
        ]
        return "\n".join([*errors, *self.inspection.notices, self.inspection.problem])


class Cells:
    """Executes cells; each case begins with no variables and no answer."""

    def __init__(self) -> None:
        self.kernel = self.wait(Kernel.start(_answer))

    def run(self, *sources: str, cell_seconds: float = 20.0) -> Seen:
        return self.wait(self._run(sources, cell_seconds))

    def value(self, source: str) -> Value:
        """The answer that one cell gives."""
        seen = self.run(source)
        assert seen.value is not None, seen.told
        return seen.value

    def wait(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return background.submit(coroutine).result(_PATIENCE)

    def close(self) -> None:
        self.wait(self.kernel.close())

    async def _run(self, sources: tuple[str, ...], cell_seconds: float) -> Seen:
        left = [variable.name for variable in (await self.kernel.inspect()).variables]
        if left:
            await self.kernel.execute(f"del {', '.join(left)}")
        await self.kernel.begin()
        runs = [await self.kernel.execute(source, cell_seconds=cell_seconds) for source in sources]
        inspection = await self.kernel.inspect()
        value = await self.kernel.get() if inspection.answer_state == "declared" else None
        return Seen(tuple(runs), inspection, value)
