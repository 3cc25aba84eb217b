"""`RunningChildren`: the children that are going on, in words."""

from __future__ import annotations

from rlm_jupyter.types.events import ChildReported, ReplyReceived, ReplyStreamed, RunEnded, RunStarted


class RunningChildren:
    """Folds what children report; knows of each at which iteration it is."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}

    def apply(self, reported: ChildReported) -> None:
        """Take in what happened in one of them."""
        match reported.event:
            case RunStarted():
                self._at[reported.child] = 1
            case ReplyStreamed(iteration=index) | ReplyReceived(iteration=index):
                self._at[reported.child] = index
            case RunEnded():
                self._at.pop(reported.child, None)
            case _:
                pass

    def clear(self) -> None:
        """Forget them: the cell that asked is over."""
        self._at.clear()

    @property
    def words(self) -> str:
        """`child: iteration 2`, `3 children: iterations 1 to 4`; empty where there is none."""
        if not self._at:
            return ""
        low, high = min(self._at.values()), max(self._at.values())
        who = "child" if len(self._at) == 1 else f"{len(self._at):,} children"
        return f"{who}: iteration {low}" if low == high else f"{who}: iterations {low} to {high}"
