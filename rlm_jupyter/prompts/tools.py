"""What a model is told of the user's tools: each in a line, or of many only their names."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from rlm_jupyter.types.tool_lines import forms, line

_MOST_LINES = 20
_MOST_NAMES_CHARS = 1_500
_MOST_FORM_CHARS = 600
"""Of the fields that stand below the line of one tool."""
_HEAD = """\
Functions that the user has given you for this task. Call them in your code like any other; they take and return plain \
data, and raise SubcallError when they fail:
"""
_MANY = """\
The user has given you {count:,} more functions for this task. Call them in your code like any other; they take and \
return plain data, and raise SubcallError when they fail. `SHOW_TOOLS("word")` lists those that mention a word, \
`help(name)` describes one: {names}
"""
_SERVERS = """\
Modules of functions that are there already for this task: do not import them. `help(module)` describes what one has, \
`help(module.function)` a function; they take and return plain data, and raise SubcallError when they fail:
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
    modules: dict[tuple[str, str], list[str]] = {}
    for spec in specs:
        module, _, name = spec["name"].rpartition(".")
        if module:
            # the user, and their question, may know the server by a name that is none in Python
            modules.setdefault((module, str(spec.get("server", ""))), []).append(name)
    return _functions([spec for spec in specs if "." not in spec["name"]]) + _modules(modules)


def _modules(modules: Mapping[tuple[str, str], Sequence[str]]) -> str:
    if not modules:
        return ""
    left = _MOST_NAMES_CHARS // len(modules)
    lines = []
    for (name, server), names in modules.items():
        count = f"{len(names):,} function{'' if len(names) == 1 else 's'}"
        lines.append(f"- {name} ({f'the server {server}, ' if server else ''}{count}): {_listed(names, left)}\n")
    return f"\n{_SERVERS}{''.join(lines)}"


def _functions(specs: Sequence[Mapping[str, Any]]) -> str:
    if not specs:
        return ""
    listed = f"\n{_HEAD}" + "".join(map(_described, specs[:_MOST_LINES]))
    if len(specs) <= _MOST_LINES:
        return listed
    # no more than twenty of them take
    left = min(_MOST_NAMES_CHARS, len(listed) - len(_MANY))
    return "\n" + _MANY.format(count=len(specs), names=_listed([spec["name"] for spec in specs], left))


def _described(spec: Mapping[str, Any]) -> str:
    """Return a tool's line, and below it the fields of what it takes and gives, as far as there is room."""
    below = forms(dict(spec))
    if len(below) > _MOST_FORM_CHARS:
        below = f"(help({spec['name']}) lists the fields.)"
    return f"- {line(dict(spec))}\n" + (f"{textwrap.indent(below, '  ')}\n" if below else "")


def _listed(names: Sequence[str], left: int) -> str:
    """Return as many of the names as so many characters hold."""
    listed: list[str] = []
    for name in names:
        left -= len(name) + 2
        if left < 0:
            return ", ".join([*listed, "…"])
        listed.append(name)
    return ", ".join(listed)
