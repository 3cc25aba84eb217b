"""A run as one notebook that needs no other file: context, large outputs, children and what it has made are inside."""

from __future__ import annotations

import json
from typing import Any

from rlm_jupyter.record.export import embedded, files
from rlm_jupyter.record.export.bundle import WholeRun
from rlm_jupyter.record.notebook_file import joined
from rlm_jupyter.record.notebook_layout import Layout


def to_notebook(run: WholeRun) -> bytes:
    """Return the notebook's file.

    It is made of the record: cells that somebody wrote into the run's notebook are not in it. Whoever has it
    can re-run it: `%rlm_restore` in its first code cell finds what it needs in the notebook itself.

    Raises
    ------
    RecordError
        Nothing is recorded yet.
    """
    runs = [run, *run.prompts]
    layouts = [_laid_out(one, number) for number, one in enumerate(runs, 1)]
    whole = b"".join(joined(layouts))
    inside = [_inside(one) for one in runs]
    if not any(inside) and not any(one.files for one in runs):
        return whole
    content = json.loads(whole)
    for cell in content["cells"]:
        told = cell["metadata"].get("rlm", {})
        if told.get("role") == "answer":
            answered = runs[told.get("prompt", 1) - 1]
            files.attached(cell, answered.trajectory.ended, answered.files)
    ours = content["metadata"]["rlm"]
    # in front of the records; a small context stands there already
    if run.prompts:
        ours["prompts"] = [more | data for more, data in zip(inside[1:], ours["prompts"], strict=True)]
    content["metadata"]["rlm"] = inside[0] | ours
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()


def _laid_out(run: WholeRun, number: int) -> Layout:
    _ = run.trajectory.started
    below = {child.trajectory.run_id: child.trajectory.records for child in run}
    layout = Layout(None, run.context, number, lambda run_id: below.get(run_id, ()))
    for record in run.trajectory.records:
        layout.add(record)
    return layout


def _inside(run: WholeRun) -> dict[str, Any]:
    """Return what the notebook carries of a run besides its cells: its context, and the runs that it started."""
    inside: dict[str, Any] = {}
    if run.context is not None and (context := embedded.context_data(run.context)) is not None:
        inside["context"] = context
    if below := list(run)[1:]:
        inside["children"] = [embedded.child_data(child.trajectory.records, child.context) for child in below]
    return inside
