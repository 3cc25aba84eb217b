"""What the children of a run did can be read where the run is: in its notebook, and in one that was exported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.export import WholeRun, to_notebook
from rlm_jupyter.record.redaction import Redactor


def block(*lines: str) -> str:
    code = "\n".join(lines)
    return f"I look.\n```repl\n{code}\n```"


ROOT = [block("print(rlm_query('one part'))"), block("FINAL('done')")]
CHILD = [block("part = context.upper()", "print(part, '/home/ada/notes')"), block("FINAL(rlm_query(part))")]
GRANDCHILD = [block("print('deepest')"), block("FINAL('found')")]


def calls_of(notebook: bytes) -> str:
    cells = json.loads(notebook)["cells"]
    return "".join("".join(cell["source"]) for cell in cells if cell["metadata"]["rlm"]["role"] == "subcalls")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    replies = iter([ROOT[0], *CHILD, *GRANDCHILD, ROOT[1]])
    result = RLM(ScriptedModel(list(replies)), limits=Limits(max_depth=3)).completion("What?", "a text")
    assert result.answer == "done"
    assert result.path is not None
    return Path(result.path)


def test_the_runs_own_notebook_and_its_export_show_the_steps_of_children(path: Path) -> None:
    own = calls_of(path.read_bytes())
    assert own.count("Steps of the child: 2 iterations · answered") == 2
    for words in ("part = context.upper()", "ONE PART /home/ada", "<pre>deepest"):
        assert own.count(words) == 1, words
    run = WholeRun.gather(path)
    assert calls_of(to_notebook(run)) == own
    redacted = calls_of(to_notebook(run.redacted(Redactor(home="/home/ada"))))
    assert "/home/ada" in own
    assert "/home/ada" not in redacted
    assert "deepest" in redacted
