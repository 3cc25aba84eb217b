"""What a batch finds on disk of an item whose run came to no row: the record, which may have ended, and its bill."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass
from pathlib import Path

from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.errors import ConfigurationError, RecordError


@dataclass(frozen=True)
class FoundRun:
    """The run of an item."""

    saved: SavedRun
    path: Path
    """Of its notebook."""
    tokens: int
    cost: float | None

    @property
    def has_ended(self) -> bool:
        """Whether it came to an end of its own: it was not stopped, and not refused together with all others."""
        ended = self.saved.trajectory.ended
        return ended is not None and ended.stop_reason not in {"cancelled", "failed"}

    @property
    def has_context(self) -> bool:
        """Whether its context is with it: it is kept beside the first records, and a run may be killed in between."""
        sha256 = self.saved.trajectory.started.context.sha256
        if not sha256 or self.saved.files.objects.path(sha256).is_file():
            return True
        with contextlib.suppress(RecordError):
            self.saved.context()  # in its notebook, where it is small
            return True
        return False


def find(folder: Path, name: str) -> FoundRun | None:
    """Return the newest run of this name that can be read; `None`: there is none."""
    found = None
    for number in itertools.count(1):
        files = RunFiles(folder / f"{name}{'' if number == 1 else f'-{number}'}.ipynb")
        if not files.folder.exists() and not files.notebook.exists():
            return found
        with contextlib.suppress(RecordError, ConfigurationError):  # killed before its first record was whole
            saved = SavedRun.load(files.notebook)
            spent = saved.spent()
            found = FoundRun(saved, files.notebook, spent.usage.total_tokens, spent.cost)
    return found
