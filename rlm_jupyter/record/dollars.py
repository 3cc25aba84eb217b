"""Amounts in dollars: a notebook's page takes what stands between any two dollar signs for a formula.

"$5 in 2020 and $7 in 2021" is none. Which are formulas is decided as Pandoc does (its manual, `tex_math_dollars`): the
first dollar sign has no space behind it, the last one no space before it and no digit behind it; and no letter or
digit stands before the first one ("US$5").
"""

from __future__ import annotations

import re

ALONE = "<span>&#36;</span>"
"""A dollar sign that begins no formula: MathJax doesn't look for formulas across the borders of an element."""
_DISPLAYED, _INLINE = r"\$\$(?:(?!\n\n)(?s:.))+?\$\$", r"(?<![\w\\])\$(?![\s$])[^$\n]*?(?<![\s\\])\$(?![\d$])"
FORMULA = re.compile(f"{_DISPLAYED}|{_INLINE}")
LEFT_ALONE = rf"""
      (?P<left_alone>
        ^\ {{0,3}}(?P<fence>`{{3,}}|~{{3,}}) (?s:.*?) (?:^\ {{0,3}}(?P=fence)|\Z)  # a block of code
      | (?<!`)(?P<ticks>`+)(?!`) (?:(?!\n\n)(?s:.))+? (?<!`)(?P=ticks)(?!`)  # code within a line
      | {_DISPLAYED} | {_INLINE}
      | \\[^$]
      )"""
"""Code, formulas and what a backslash escapes (a verbose pattern of several lines)."""
_LEFT_ALONE_OR_SIGN = re.compile(rf"{LEFT_ALONE} | \\?\$", re.MULTILINE | re.VERBOSE)


def keep_amounts(markdown: str) -> str:
    """Return Markdown in which a page finds no formula but those that are ones; code stays as it is."""
    if markdown.count("$") < 2:
        return markdown
    return _LEFT_ALONE_OR_SIGN.sub(lambda found: found["left_alone"] or ALONE, markdown)
