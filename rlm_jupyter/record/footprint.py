"""What runs take on the disk: of each, of several that share files, and in a line for people."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.types.values import ContextInfo

LARGE_BYTES = 50_000_000
"""From this size on, it is said that a context is kept with its run."""


def size(run: RunFiles) -> int:
    """Return the bytes of a run's files, those that it shares included."""
    return sum(file.st_size for file in _files(run))


def freed(runs: Iterable[RunFiles]) -> int:
    """Return the bytes that the deletion of these runs frees: what another run shares stays on the disk."""
    found: dict[tuple[int, int], os.stat_result] = {}
    links: Counter[tuple[int, int]] = Counter()
    for files in runs:
        for file in _files(files):
            links[file.st_dev, file.st_ino] += 1
            found[file.st_dev, file.st_ino] = file
    return sum(file.st_size for key, file in found.items() if links[key] >= file.st_nlink)


def kept_context(notebook: Path, context: ContextInfo) -> str:
    """Say that a large context is kept with the run that has this notebook; empty where it is small or not there."""
    if context.nbytes < LARGE_BYTES:
        return ""
    try:
        links = RunFiles(notebook).objects.path(context.sha256).stat().st_nlink
    except OSError:
        return ""
    megabytes = f"{context.nbytes / 1e6:,.0f} MB"
    if links > 1:
        return f"Its context ({megabytes}) is kept once for {links:,} runs here."
    return f"Its context is kept with it: {megabytes}, once for all runs here. jupyter rlm clean deletes old runs."


def _files(run: RunFiles) -> Iterator[os.stat_result]:
    for path in [*run.folder.rglob("*"), run.notebook]:
        try:
            found = path.lstat()
        except OSError:
            continue  # no notebook, or just removed
        if stat.S_ISREG(found.st_mode):
            yield found
