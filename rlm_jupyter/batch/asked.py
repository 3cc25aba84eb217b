"""`Asked`: what a batch asks about each of its rows, and wherein another one's question differs."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rlm_jupyter.types.quoted import quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """All that results depend on but the rows."""

    prompt: str
    context: str | None
    key: str | None
    models: str
    """Their names."""
    answer: str
    """The JSON schema of the answers; empty: none."""
    digest: str
    """Of all of these, and of each option that may change an answer."""

    def unlike(self, here: Asked) -> str:
        """Say wherein this, of an earlier call, differs from what is asked here."""
        there, now = asdict(self), asdict(here)
        shown = {name: _both(name, _shown(there[name]), _shown(now[name])) for name in there}
        shown |= {"answer": "answers of another type", "digest": "another option"}
        differs = [name for name in there if there[name] != now[name]]
        return "; ".join(shown[name] for name in differs if name != "digest" or len(differs) == 1)


def _both(name: str, there: str, here: str) -> str:
    return (
        f"another {name}" if there == here else f"{name}: {there} there, {here} here"
    )  # what is long is shown in part


def _shown(value: str | None) -> str:
    return "none" if value is None else quoted(value)
