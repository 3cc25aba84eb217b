"""`Shared`: one policy object, for run after run."""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from rlm_jupyter.policies.base import Policy

_P = TypeVar("_P", bound=Policy)


class Shared(Generic[_P]):
    """Lends a policy to one run at a time; runs beside it, children among them, get copies.

    Parameters
    ----------
    policy
        What the user configured.
    """

    def __init__(self, policy: _P) -> None:
        self._policy = policy
        self._free = threading.Lock()

    @property
    def name(self) -> str:
        """The policy's."""
        return self._policy.name

    @property
    def digest(self) -> str:
        """Of its name, its settings and, where it is the user's own, its source: what makes a run another one."""
        parts = [self.name, json.dumps(self._policy.config, sort_keys=True, default=repr)]
        rule = getattr(self._policy, "function", type(self._policy))
        if not rule.__module__.startswith("rlm_jupyter."):
            try:
                parts.append(inspect.getsource(rule))
            except (OSError, TypeError):
                parts.append(rule.__qualname__)
        return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @contextmanager
    def lend(self) -> Iterator[_P]:
        """The policy itself where it is free, else a copy; whoever gets it begins by resetting it."""
        if self._free.acquire(blocking=False):
            try:
                yield self._policy
            finally:
                self._free.release()
        else:
            yield copy.deepcopy(self._policy)
