"""The lines by which a terminal tells of a run's cells."""

from __future__ import annotations

import pytest

from rlm_jupyter.frontends.cli.lines import gist


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("import re\n# count the pages\nlen(pages)", "count the pages"),
        ("import re\n\nlen(pages)", "len(pages)"),
        ("for page in range(5):\n    print(page)", "print(page)"),
        ("with open('a') as file:\n    text = file.read()", "text = file.read()"),
        ("try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass", "1 / 0"),
        ("import time; time.sleep(1)\nprint(1)", "import time; time.sleep(1)"),
        ("while True: pass", "while True: pass"),
        ("for page in pages:", "for page in pages:"),
    ],
)
def test_a_cell_is_named_by_what_it_does(source: str, line: str) -> None:
    assert gist(source, 80) == line
