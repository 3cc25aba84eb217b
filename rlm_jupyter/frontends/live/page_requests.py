"""`Asks`: what a page asks of a run, each heard once, however often it is said.

A busy kernel may hear a message late, twice, or not at all. So a page numbers what it asks, and says all that
was not heard yet, in order, until the run's facts say that it was.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from typing import Any

_MOST_PAGES = 8
"""Pages of one run whose numbers are kept: each load of a page is a new one."""
_MOST_SAID = 16
_PAGE_CHARS = 64
log = logging.getLogger(__name__)


class Asks:
    """What was heard from each page, and what came of it. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._heard: OrderedDict[str, int] = OrderedDict()
        self._said: deque[dict[str, Any]] = deque(maxlen=_MOST_SAID)

    def new(self, message: dict[str, Any], most: int | None = None) -> list[dict[str, Any]]:
        """Return those of a page's message that were not heard before, in order; they are heard now.

        What is malformed is passed over with a line in the log; where it has a number, it counts as heard.

        Parameters
        ----------
        most
            How many can be done now; the rest is not heard yet, and will be said again.
        """
        page, asks = message.get("page"), message.get("asks")
        if not (isinstance(page, str) and 0 < len(page) <= _PAGE_CHARS and isinstance(asks, list)):
            log.info("A page asked for something malformed: it was passed over.")
            return []
        new = []
        with self._lock:
            heard = self._heard.get(page, 0)
            for ask in asks[:most]:
                n = ask.get("n") if isinstance(ask, dict) else None
                if not isinstance(n, int) or isinstance(n, bool):
                    log.info("A page asked for something without a number: it was passed over.")
                elif n == heard + 1:  # in order: a gap means that the page says more
                    heard = n
                    new.append({**ask, "page": page})
            self._heard[page] = heard
            self._heard.move_to_end(page)
            while len(self._heard) > _MOST_PAGES:
                self._heard.popitem(last=False)
        return new

    def say(self, ask: dict[str, Any], what: str, text: str, **more: Any) -> None:
        """Tell the page that asked what came of it.

        Parameters
        ----------
        what
            `refused`, `exported`, `branch` or `unread`.
        """
        with self._lock:
            self._said.append({"page": ask["page"], "n": ask["n"], "what": what, "text": text, **more})

    def told(self) -> dict[str, Any]:
        """Return it as the page gets it, among the facts of the run."""
        with self._lock:
            return {"heard": dict(self._heard), "said": list(self._said)}
