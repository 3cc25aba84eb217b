"""The files that a pattern or a folder stands for, without those that git ignores and those of earlier runs."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlm_jupyter.run.files.unreadable import INSTALL, Note

_HIDDEN = "hidden"
_PASSED_OVER = frozenset({"__pycache__", "node_modules", "rlm_runs"})
"""Folders that hold nothing of the user's own; earlier runs would bring their contexts back."""


def matches(pattern: str) -> Iterator[str]:
    """Yield the files that match a pattern, sorted."""
    for path in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207 — Path.glob takes no absolute pattern
        if Path(path).is_file() and (_is_of_run(pattern) or not _is_of_run(path)):
            yield path


def walk(folder: Path, note: Note) -> Iterator[str]:
    """Yield the files below a folder, sorted, without hidden ones, those that git ignores, and those of earlier runs.

    Parameters
    ----------
    note
        Told, in the end, how many files and folders were passed over, and what could not be looked into.
    """
    ignored = _Ignored(folder, note)
    passed_over: Counter[str] = Counter()

    def unreadable(error: OSError) -> None:
        note(f"{error.filename}: left out: {why(error)}")

    for here, folders, names in os.walk(folder, onerror=unreadable):
        parent = Path(here)
        ignored.enter(parent, names)
        reasons = {name: _why_passed_over(name) or ignored.why(parent / name, folder=True) for name in folders}
        folders[:] = sorted(name for name, reason in reasons.items() if not reason)
        passed_over.update(filter(None, reasons.values()))
        for name in sorted(names):
            path = parent / name
            reason = _HIDDEN if name.startswith(".") else ignored.why(path, folder=False)
            if reason:
                passed_over[reason] += 1
            elif path.is_file():  # a pipe would be waited for, for ever
                yield str(path)
    if passed_over:
        counts = ", ".join(f"{count:,} {reason}" for reason, count in passed_over.items())
        note(f"{folder}: passed over {counts} (files and folders; name them to read them).")


def _why_passed_over(folder: str) -> str:
    """Return why a folder of this name is not looked into; empty: it is."""
    if folder.startswith("."):
        return _HIDDEN
    return "of tools and earlier runs" if folder in _PASSED_OVER or folder.endswith(".rlm") else ""


class _Ignored:
    """What `.gitignore` files say: those in the folder, and those above it in the same repository."""

    def __init__(self, folder: Path, note: Note) -> None:
        self._specs: list[tuple[Path, Any]] = []
        self._note: Note | None = note
        root = folder.resolve()
        above = [root, *root.parents]
        repository = next((parent for parent in above if (parent / ".git").exists()), root)
        for parent in reversed(above[1 : above.index(repository) + 1]):
            self._add(parent)
        if self.why(root, folder=True):
            self._specs.clear()  # it was named all the same: what is in it is wanted

    def enter(self, folder: Path, names: list[str]) -> None:
        """Read the file in `folder`, if it is among `names`."""
        if ".gitignore" in names:
            self._add(folder.resolve())

    def why(self, path: Path, *, folder: bool) -> str:
        """Return `ignored by git`, or nothing: the last rule that says anything counts."""
        if not self._specs:
            return ""
        # not of the path itself: a link is ignored by its own name
        real = path.parent.resolve() / path.name
        for base, spec in reversed(self._specs):
            if real.is_relative_to(base):
                relative = real.relative_to(base).as_posix()
                include = spec.check_file(f"{relative}/" if folder else relative).include
                if include is not None:
                    return "ignored by git" if include else ""
        return ""

    def _add(self, folder: Path) -> None:
        file = folder / ".gitignore"
        if not file.is_file():
            return
        try:
            from pathspec import GitIgnoreSpec
        except ImportError:
            if self._note is not None:
                self._note(f"{file} is not honoured without pathspec: {INSTALL}.")
                self._note = None
            return
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        self._specs.append((folder, GitIgnoreSpec.from_lines(lines)))


def _is_of_run(path: str) -> bool:
    return any(part == "rlm_runs" or part.endswith(".rlm") for part in Path(path).parts)


def why(error: Exception) -> str:
    """Say in words why a file can't be read."""
    if isinstance(error, FileNotFoundError):
        return "there is no such file."
    return f"{error.strerror or error}." if isinstance(error, OSError) else str(error)
