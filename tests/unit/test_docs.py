"""The documents lead somewhere: every link and every module that they name is there, and options are real."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from rlm_jupyter.frontends.cli.parser import make_parser, parsed
from rlm_jupyter.frontends.magics.resume import ResumeMagics
from rlm_jupyter.frontends.magics.rlm import RLMMagics
from rlm_jupyter.frontends.run_options import OPTIONS
from tests.support import options

ROOT = Path(__file__).parents[2]
COMMANDS = {"cli": "run", "resume": "resume", "fork": "fork"}
MAGICS: dict[str, Any] = {"magic": RLMMagics.rlm, "%resume": ResumeMagics.rlm_resume}
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def links(text: str) -> list[str]:
    """The targets of a document's links and pictures."""
    tokens = [child for token in MarkdownIt("commonmark").enable("table").parse(text) for child in token.children or ()]
    return [
        str(token.attrs.get("href") or token.attrs.get("src"))
        for token in tokens
        if {"href", "src"} & token.attrs.keys()
    ]


def anchors(path: Path) -> set[str]:
    """What GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_no_link_is_dead(path: Path) -> None:
    found = links(path.read_text())
    assert found or path.name not in {"README.md", "architecture.md"}
    for link in found:
        if link.startswith(("http://", "https://")):
            continue
        target, _, anchor = link.partition("#")
        where = (path.parent / target).resolve() if target else path
        assert where.exists(), link
        assert not anchor or anchor in anchors(where), link


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_modules_that_are_named_are_there(path: Path) -> None:
    named = re.findall(
        r"`((?:frontends|run|record|replay|kernel|models|policies|prompts|parsing|types)/[\w/]+\.py)`", path.read_text()
    )
    assert [name for name in named if not (ROOT / "rlm_jupyter" / name).is_file()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_of_the_command_line_are_understood(path: Path) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", path.read_text(), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("jupyter rlm ")]
    for line in lines:
        parsed(shlex.split(line, comments=True)[2:])


def test_the_page_of_options_is_made_of_their_table() -> None:
    assert options.PAGE.read_text() == options.page(), "python -m tests.support.options writes it anew"


def test_the_table_of_options_says_what_commands_magics_and_configuration_take() -> None:
    commands = {surface: make_parser(name).called for surface, name in COMMANDS.items()}
    taken = {surface: set(its._option_string_actions) for surface, its in commands.items() if its is not None}
    taken |= {surface: set(magic.parser._option_string_actions) for surface, magic in MAGICS.items()}
    for option in OPTIONS:
        for surface, flags in taken.items():
            assert (option.flags[-1] in flags) == (surface in option.surfaces | option.elsewhere), (
                option.name,
                surface,
            )
        is_trait = RLMMagics.class_trait_names(config=True).count(option.keyword)
        assert bool(is_trait) == ("config" in option.surfaces | option.elsewhere), option.name


def test_every_document_is_linked_from_the_readme() -> None:
    named = {link.partition("#")[0] for link in links((ROOT / "README.md").read_text())}
    assert {f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")} <= named


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
