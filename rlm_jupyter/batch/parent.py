"""The process that has started a worker's: the worker ends with it.

A pool of Python's that is forked does not see to that: each of its processes holds the pipes of the others open, and so
they wait for ever where their host was killed.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from functools import lru_cache

_LOOK_SECONDS = 0.5
_END_SECONDS = 20.0
"""How long what is under way may take to be put away."""


def is_gone() -> bool:
    """Return whether this is a process of `multiprocessing` whose parent is not there any more."""
    parent = multiprocessing.parent_process()
    return parent is not None and (os.getppid() != parent.pid or not parent.is_alive())


@lru_cache(maxsize=1)
def end_with_it(is_busy: Callable[[], bool]) -> None:
    """End this process once its parent is gone and it is busy no more, where `multiprocessing` has started it."""
    if multiprocessing.parent_process() is not None:
        threading.Thread(target=_watch, args=(is_busy,), name="rlm_parent", daemon=True).start()


def _watch(is_busy: Callable[[], bool]) -> None:
    while not is_gone():
        time.sleep(_LOOK_SECONDS)
    until = time.monotonic() + _END_SECONDS
    while is_busy() and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
