"""The files that a run has made, where its result is shown."""

from __future__ import annotations

from pathlib import Path

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.record import file_list
from rlm_jupyter.run.result import Result


def as_html(result: Result) -> str:
    """Return a line for each, with a link where a notebook's page finds it; empty where there are none."""
    lines = [fragments.file(path, size) for path, size in _found(result)]
    return fragments.block("".join(lines)) if lines else ""


def as_text(result: Result) -> str:
    """Return a line for each, for a terminal."""
    return "\n".join(f"File: {near(path)} ({size})" for path, size in _found(result))


def near(path: Path) -> Path:
    """Return a path as it is called from the working directory."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _found(result: Result) -> list[tuple[Path, str]]:
    ended = result.trajectory.ended
    sizes = {} if ended is None else {file["name"]: file_list.size(file["nbytes"]) for file in ended.files}
    return [(path, sizes.get(name, "")) for name, path in result.outputs.items()]
