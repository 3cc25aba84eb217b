"""What a model is told of the user's tools: each in a line, or of many only their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlm_jupyter.types.tool_lines import line

_MOST_LINES = 20
_MOST_NAMES_CHARS = 1_500
_HEAD = """\
Functions that the user has given you for this task. Call them in your code like any other; they take and return plain \
data, and raise SubcallError when they fail:
"""
_MANY = """\
The user has given you {count:,} more functions for this task. Call them in your code like any other; they take and \
return plain data, and raise SubcallError when they fail. `SHOW_TOOLS("word")` lists those that mention a word, \
`help(name)` describes one: {names}
"""


def tool_list(specs: Sequence[Mapping[str, Any]]) -> str:
    """Return the paragraph on them; nothing where there are none.

    Parameters
    ----------
    specs
        As `Tool.spec` has them.
    """
    if not specs:
        return ""
    listed = f"\n{_HEAD}" + "".join(f"- {line(dict(spec))}\n" for spec in specs[:_MOST_LINES])
    if len(specs) <= _MOST_LINES:
        return listed
    # no more than twenty of them take
    names, left = [], min(_MOST_NAMES_CHARS, len(listed) - len(_MANY))
    for spec in specs:
        left -= len(spec["name"]) + 2
        if left < 0:
            names.append("…")
            break
        names.append(spec["name"])
    return "\n" + _MANY.format(count=len(specs), names=", ".join(names))
