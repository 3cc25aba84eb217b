"""A tool in a line: how it is called, and how its description begins; and what it takes and gives."""

from __future__ import annotations

from typing import Any

_SUMMARY_CHARS = 200
_LINE_CHARS = 400


def line(spec: dict[str, Any]) -> str:
    """Return `search(query: str, limit: int = 10) -> list: Search the index.`; `spec` as `Tool.spec` has it."""
    summary = " ".join(spec["doc"].split("\n\n", 1)[0].split())
    summary = summary if len(summary) <= _SUMMARY_CHARS else f"{summary[:_SUMMARY_CHARS]}…"
    text = head(spec) + (f": {summary}" if summary else "")
    return text if len(text) <= _LINE_CHARS else f"{text[:_LINE_CHARS]}…"


def forms(spec: dict[str, Any]) -> str:
    """Return what its parameters and its result are made of, one below the other; empty where the line says all."""
    return "\n".join(f"{name or 'returns'}: {text}" for name, text in spec.get("forms", ()))


def head(spec: dict[str, Any]) -> str:
    """Return how it is called: `search(query: str, limit: int = 10) -> list`."""
    if spec["parameters"] is None:
        return f"{spec['name']}(…)"
    parts: list[str] = []
    before = ""
    for name, kind, default, annotation in spec["parameters"]:
        if before == "POSITIONAL_ONLY" != kind:
            parts.append("/")
        if kind == "KEYWORD_ONLY" and before not in {"KEYWORD_ONLY", "VAR_POSITIONAL"}:
            parts.append("*")
        star = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(kind, "")
        text = f"{star}{name}" + (f": {annotation}" if annotation else "")
        text += "" if default is None else f" = {default}" if annotation else f"={default}"
        parts.append(text)
        before = kind
    if before == "POSITIONAL_ONLY":
        parts.append("/")
    returns = f" -> {spec['returns']}" if spec["returns"] else ""
    return f"{spec['name']}({', '.join(parts)}){returns}"
