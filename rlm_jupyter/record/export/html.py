"""A run as one page to review: prompt, answer, costs, the tree of calls, and the cells."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlm_jupyter.record import safe_html
from rlm_jupyter.record.answer_table import answer_markdown
from rlm_jupyter.record.export import files, markup
from rlm_jupyter.record.export.bundle import WholeRun
from rlm_jupyter.record.export.call_tree import dollars, seconds, tokens, tree
from rlm_jupyter.record.export.costs import costs, total
from rlm_jupyter.record.notebook import is_run
from rlm_jupyter.record.notebook_file import joined
from rlm_jupyter.record.notebook_layout import Layout
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.endings import in_short
from rlm_jupyter.types.errors import ConfigurationError

_FILTERS: dict[str, Callable[[Any], str]] = {
    "prose": safe_html.markdown,
    "python": safe_html.python,
    "outputs": markup.shown,
}
_TEMPLATES = Path(__file__).parent / "templates"


def to_html(run: WholeRun | Trajectory | str | Path) -> str:
    """Return a run as one HTML page, which needs no other file, runs no script and fetches nothing.

    Parameters
    ----------
    run
        The run, or the path of its notebook.

    Raises
    ------
    ConfigurationError
        The notebook is not a run's.
    RecordError
        There is no such run, or nothing is recorded yet.
    """
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    if isinstance(run, str | Path):
        if Path(run).is_file() and not is_run(run):
            raise ConfigurationError(f"{run} is not the notebook of a run.")
        run = WholeRun.gather(run, context=False, outputs=True)
    elif isinstance(run, Trajectory):
        run = WholeRun(run)
    runs = [(one, _cells(one)) for one in (run, *run.prompts)]
    pages = Environment(loader=FileSystemLoader(_TEMPLATES), autoescape=True)
    for name, draw in _FILTERS.items():
        # in the template only what these made is no text that is to be escaped
        pages.filters[name] = lambda value, draw=draw: Markup(draw(value))
    return pages.get_template("run.html.j2").render(
        runs=[(_parts(one, content), content["cells"]) for one, content in runs]
    )


def _cells(run: WholeRun) -> dict[str, Any]:
    layout = Layout(None, None, run.number)
    _ = run.trajectory.started
    for record in run.trajectory.records:
        layout.add(record)
    content: dict[str, Any] = json.loads(b"".join(joined([layout])))
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"])
    content["metadata"].pop("rlm")
    return content


def _parts(run: WholeRun, content: dict[str, Any]) -> dict[str, Any]:
    trajectory = run.trajectory
    started, ended = trajectory.started, trajectory.ended
    anchors: dict[tuple[int, int], str] = {}
    for cell in content["cells"]:
        ours = cell["metadata"]["rlm"]
        if cell["cell_type"] == "code" and "block" in ours:
            anchors[ours["iteration"], ours["block"]] = cell["id"]
    lines = costs(run)
    everything = total(run, lines)
    count = len(trajectory.iterations)
    return {
        "title": " ".join(started.prompt.split())[:80] or "A run",
        "style": (_TEMPLATES / "style.css").read_text(encoding="utf-8"),
        "number": run.number,
        "prompt": markup.cut(started.prompt),
        "answer": None if ended is None or ended.answer is None else markup.cut(answer_markdown(ended)),
        "files": files.shown(ended, run.files),
        "state": in_short(ended.stop_reason, ended.message) if ended is not None else "not ended",
        "message": ended.message if ended is not None else "",
        "facts": [
            f"{count:,} iteration{'' if count == 1 else 's'}",
            tokens(everything.usage),
            dollars(everything.cost),
            seconds(everything.seconds),
        ],
        "about": [
            ("Model", started.model),
            ("Sub-calls", started.sub_model),
            ("Context", "none" if started.context.type_name == "none" else _sized(run)),
            ("Started", started.moment),
            ("Run", started.run_id),
        ],
        "costs": [*lines, everything],
        "dollars": dollars,
        "seconds": seconds,
        "tree": tree(run, anchors),
    }


def _sized(run: WholeRun) -> str:
    info = run.trajectory.started.context
    return f"{info.type_name}, {info.size}"
