"""`Job`: what a driver is given, and what it tells. Every environment has it: it needs the standard library alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True)
class Job:
    """A run to be made. What goes wrong in it is left to end the process: that is what counts as raised."""

    folder: str
    """What the run leaves behind is kept here."""
    prompt: str
    base_url: str
    """Of a server that speaks chat completions, with the `/v1`."""
    provider: str
    model: str
    max_iterations: int
    form: str = "text"
    """How the context is handed over: as it is, as the data of its `json`, or as a data `frame` of its CSV."""
    options: dict[str, Any] = field(default_factory=dict)
    """What else a driver knows."""

    @property
    def text(self) -> str:
        """The context as text."""
        return (Path(self.folder) / "context.txt").read_text(encoding="utf-8")

    @property
    def context(self) -> Any:
        """The context in its form."""
        if self.form == "frame":
            import pandas as pd

            return pd.read_csv(Path(self.folder) / "context.txt")
        return json.loads(self.text) if self.form == "json" else self.text

    def write(self, context: str) -> Path:
        """Lay it down for a driver."""
        folder = Path(self.folder)
        (folder / "context.txt").write_text(context, encoding="utf-8")
        path = folder / "job.json"
        path.write_text(json.dumps(asdict(self), indent=1))
        return path

    @classmethod
    def given(cls) -> Self:
        """The one that the command line names."""
        return cls(**json.loads(Path(sys.argv[-1]).read_text()))

    def tell(self, answer: object, replies: Sequence[str], **more: object) -> None:
        """Say what came of it.

        Parameters
        ----------
        replies
            Of the model, one for each iteration that the system counts.
        """
        told = {"answer": None if answer is None else str(answer), "replies": list(replies), **more}
        (Path(self.folder) / "told.json").write_text(json.dumps(told, indent=1))
