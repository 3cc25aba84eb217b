"""What somebody said stands in a notebook's cells as they said it: no tag swallows a word, no picture is fetched."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from rlm_jupyter.record.notebook import read
from rlm_jupyter.record.notebook_writer import NotebookWriter
from rlm_jupyter.record.said import said
from rlm_jupyter.types.events import Record
from tests.support.sample_run import ended, reply, started

GENERICS = "Use List<String> and Map<K, V>; the empty <title> elements are 3."
CODE = [
    "`List<String>`",
    "```java\nList<String> a;\n```",
    "``a ` <b>``",
    "$a<b$",
    r"\<b>",
    "a < b <- c <= d",
    "wow! [x](y)",
]


def drawn(markdown: str) -> str:
    """Return what a notebook's page makes of it: HTML in Markdown is HTML."""
    return MarkdownIt("commonmark", {"html": True}).render(markdown)


@pytest.mark.parametrize(
    "text", [GENERICS, "<script>alert(1)</script>", "a <!-- b --> c", "</p>", "1. <b>\n\n> <img src=x onerror=y>"]
)
def test_a_tag_stands_as_text(text: str) -> None:
    assert drawn(text) != drawn(said(text))
    for tag in ("<String", "<K", "<title", "<script", "<!--", "</p>\n</p>", "<b>", "<img"):
        assert tag not in drawn(said(text))
    assert drawn(said(text)).count("&lt;") == text.count("<")


def test_a_picture_is_not_fetched() -> None:
    assert "<img" in drawn("![a](https://host/x.png)")
    assert "<img" not in drawn(said("![a](https://host/x.png) and ![b][c]\n\n[c]: https://host/y.png"))


@pytest.mark.parametrize("text", CODE)
def test_all_else_is_left_alone(text: str) -> None:
    assert said(text) == text


def test_a_run_shows_what_was_said_and_keeps_it_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.ipynb"
    records: list[Record] = [
        replace(started(), prompt=GENERICS),
        reply(1, f"{GENERICS}\n```repl\nFINAL('<b>')\n```"),
        replace(ended(), answer=GENERICS, value=GENERICS),
    ]
    writer = NotebookWriter(path)
    for record in records:
        writer.update(record)
    writer.write()
    cells = ["".join(cell["source"]) for cell in json.loads(path.read_bytes())["cells"]]
    assert sum(said(GENERICS) in cell for cell in cells) == 3
    assert not any("<title>" in cell or "List<" in cell for cell in cells)
    assert "FINAL('<b>')" in cells
    assert read(path) == records
