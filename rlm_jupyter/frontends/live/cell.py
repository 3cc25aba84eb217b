"""`LiveCell`: one cell of a run as a page shows it, and what of it the page was told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from rlm_jupyter.frontends.display import sanitize
from rlm_jupyter.types.values import CellStatus, Output

Item = dict[str, Any]
Role = Literal["prose", "code", "subcalls", "notice", "answer", "boundary"]
MESSAGE_CHARS = 1_000_000
"""About as much goes into one message, if it is not a single item that is longer."""
Status = CellStatus | Literal["writing", "proposed", "running", "undone"]


@dataclass(slots=True)
class LiveCell:
    """One cell, and what of it was told."""

    id: str
    role: Role
    iteration: int
    block: int = 0
    source: str = ""
    made: tuple[Output, ...] = ()
    """Outputs as they came."""
    execution_count: int | None = None
    status: Status = "writing"
    facts: dict[str, Any] = field(default_factory=dict)
    within: dict[str, Any] = field(default_factory=dict)
    """Facts that all cells of a child have: which child, and at which depth."""
    is_amended: bool = False
    """A person has edited it."""
    told: Item | None = None
    clean: sanitize.Cleaner = field(default_factory=sanitize.Cleaner)

    @property
    def is_done(self) -> bool:
        """Nothing in it will change."""
        return self.status not in {"writing", "proposed", "running"}

    def whole(self, after: str | None) -> Item:
        """Return all of it, as it may be shown."""
        return {
            "id": self.id,
            "type": "code" if self.role == "code" else "markdown",
            "after": after,
            "source": sanitize.plain(self.source) if self.role in {"code", "subcalls"} else sanitize.prose(self.source),
            "outputs": self.clean(self.made, running=not self.is_done),
            "execution_count": self.execution_count,
            "status": self.status,
            "facts": {
                "role": self.role,
                "iteration": self.iteration,
                "block": self.block,
                **self.within,
                **self.facts,
            },
        }

    def news(self, after: str | None) -> Iterator[Item]:
        """Yield what of it was not told yet."""
        before, now = self.told, self.whole(after)
        self.told = now
        if before is None or self.is_done:
            yield {"item": "done" if self.is_done else "cell", "cell": now}
            return
        if now["source"] != before["source"]:
            at = _common(before["source"], now["source"])
            # a page counts in units of UTF-16
            units = len(now["source"][:at].encode("utf-16-le")) // 2
            yield {"item": "source", "id": self.id, "at": units, "text": now["source"][at:]}
        yield from _grown(self.id, before["outputs"], now["outputs"])
        if (now["status"], now["facts"]) != (before["status"], before["facts"]):
            yield {"item": "status", "id": self.id, "status": now["status"], "facts": now["facts"]}


def in_parts(items: Iterable[Item]) -> list[list[Item]]:
    """Items in messages of a size that a page takes in without a halt; the last may be empty, and there is one."""
    parts: list[list[Item]] = [[]]
    size = 0
    for item in items:
        here = _chars(item)
        if parts[-1] and size + here > MESSAGE_CHARS:
            parts.append([])
            size = 0
        parts[-1].append(item)
        size += here
    return parts


def _chars(item: Item) -> int:
    what = item.get("cell", item)
    made = sum(sanitize.chars(output) for output in what.get("outputs", ()))
    return made + len(what.get("source", "")) + len(what.get("text", ""))


def _grown(cell_id: str, before: list[Output], now: list[Output]) -> Iterator[Item]:
    """Say how a cell's outputs became others: a text that grows is told by what is new in it."""
    same = next((i for i, (a, b) in enumerate(zip(before, now, strict=False)) if a != b), min(len(before), len(now)))
    if same == len(before) == len(now):
        return
    if same == len(before) - 1 < len(now) and before[same]["output_type"] == "stream":
        old, new = before[same], now[same]
        is_longer = old.get("name") == new.get("name") and new["text"].startswith(old["text"])
        if is_longer:
            yield {"item": "text", "id": cell_id, "at": same, "text": new["text"][len(old["text"]) :]}
            same += 1
            if same == len(now):
                return
    yield {"item": "outputs", "id": cell_id, "from": same, "outputs": now[same:]}


def _common(before: str, now: str) -> int:
    """Return how many characters two texts begin with alike."""
    if now.startswith(before):
        return len(before)
    low, high = 0, min(len(before), len(now))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if before[:middle] == now[:middle] else (low, middle - 1)
    return low
