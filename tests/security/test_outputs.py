"""Scripts in what a cell puts out: none acts in a page, wherever a run is shown, and nothing makes it trusted."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pytest
from nbformat.sign import NotebookNotary

from rlm_jupyter import RLM, Limits
from rlm_jupyter.frontends.display import sanitize as safe
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.export.html import to_html

EVIL = "EVIL()"
CELL = f"""
from IPython.display import HTML, SVG, Javascript, Markdown, display
display(HTML("<script>{EVIL}</script><img src=x onerror={EVIL}><iframe srcdoc='<script>{EVIL}</script>'></iframe>"))
display(SVG('<svg xmlns="http://www.w3.org/2000/svg"><script>{EVIL}</script><a href="javascript:{EVIL}">x</a></svg>'))
display(Markdown("[x](javascript:{EVIL}) <img src=x onerror={EVIL}>"))
display(Javascript("{EVIL}"))
display({{"text/html": "<b onclick={EVIL}>b</b>"}}, raw=True, metadata={{"trusted": True, "text/html": {{"isolated": False}}}})
display({{"application/vnd.jupyter.widget-view+json": {{"model_id": "x"}}, "text/plain": "w"}}, raw=True)
from rlm_jupyter.kernel.guest import codec
get_ipython().kernel.send_response(get_ipython().kernel.iopub_socket, "display_data",
    {{"data": {{"text/html": "<script>{EVIL}</script>"}}, "metadata": {{}}, "trusted": True, "transient": {{}}}})
print("<script>{EVIL}</script>")
FINAL("<script>{EVIL}</script><img src=x onerror={EVIL}>" * 1)
"""


class Acting(HTMLParser):
    """Collects what could act in a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"script", "iframe", "object", "embed", "form", "base", "meta", "link"}:
            self.found += [tag] if EVIL in str(attrs) or tag in {"script", "iframe", "object", "embed"} else []
        self.found += [
            f"{n}={v}" for n, v in attrs if n.startswith("on") or (v or "").strip().startswith("javascript:")
        ]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def test_no_script_of_a_cell_acts_anywhere_and_nothing_is_trusted() -> None:
    prose = f"<script>{EVIL}</script> ![x](javascript:{EVIL})\n"
    root = ScriptedModel([f"{prose}```repl\n{CELL}\n```"])
    result = await RLM(root, limits=Limits(max_iterations=2)).acompletion(f"<script>{EVIL}</script>?", "text")
    assert result.answer is not None
    assert result.answer.startswith("<script>")
    assert result.path is not None
    outputs = result.trajectory.iterations[0].cells[0].outputs
    assert len(outputs) >= 7
    live = safe.clean(outputs)
    assert "application/javascript" not in json.dumps(live)
    assert "trusted" not in json.dumps(live)
    rich = "".join(output["data"].get("text/html", "") for output in live if "data" in output)
    for page in (rich, to_html(result.path), result._repr_html_()):
        assert page
        assert Acting(page).found == []
    assert Acting(CELL).found  # and the same, not made safe, would
    notebook = nbformat.read(result.path, as_version=4)
    assert not [cell for cell in notebook.cells if cell.metadata.get("trusted")]
    assert not NotebookNotary(data_dir=str(Path.cwd())).check_signature(notebook)
