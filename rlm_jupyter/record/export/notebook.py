"""A run as one notebook that needs no other file: context, large outputs, children and what it has made are inside."""

from __future__ import annotations

import json
from typing import Any

from rlm_jupyter.record.export import embedded, files
from rlm_jupyter.record.export.bundle import WholeRun
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
    _ = run.trajectory.started
    layout = Layout(None, run.context)
    for record in run.trajectory.records:
        layout.add(record)
    whole = b"".join(layout.pieces())
    inside: dict[str, Any] = {}
    if run.context is not None and (context := embedded.context_data(run.context)) is not None:
        inside["context"] = context
    if below := list(run)[1:]:
        inside["children"] = [embedded.child_data(child.trajectory.records, child.context) for child in below]
    if not inside and not run.files:
        return whole
    content = json.loads(whole)
    for cell in content["cells"]:
        if cell["metadata"].get("rlm", {}).get("role") == "answer":
            files.attached(cell, run.trajectory.ended, run.files)
    # in front of the records; a small context stands there already
    content["metadata"]["rlm"] = inside | content["metadata"]["rlm"]
    return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()
