"""`SharedPolicy`: one policy object, for run after run."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from rlm_jupyter.policies.base import Policy
from rlm_jupyter.types.errors import PolicyError
from rlm_jupyter.types.function_source import source_of

_P = TypeVar("_P", bound=Policy)


class SharedPolicy(Generic[_P]):
    """Lends a policy to one run at a time; runs beside it, children among them, get copies.

    Parameters
    ----------
    policy
        What the user configured.
    """

    def __init__(self, policy: _P) -> None:
        self._policy = policy
        self._free = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Be pickled as the policy: another process lends its own."""
        return type(self), (self._policy,)

    @property
    def name(self) -> str:
        """The policy's; of one that is not registered, its class's."""
        return self._policy.name or type(self._policy).__name__

    @property
    def digest(self) -> str:
        """Of its name, its settings and, where it is the user's own, its source: what makes a run another one."""
        parts = [self.name, json.dumps(self._policy.config, sort_keys=True, default=repr)]
        rule: Any = getattr(self._policy, "function", type(self._policy))
        if not str(getattr(rule, "__module__", "")).startswith("rlm_jupyter."):
            parts.append(source_of(rule))
        return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @contextmanager
    def acquire(self, asked: Sequence[threading.Thread] = ()) -> Iterator[_P]:
        """Yield the policy itself where it is free, else a copy; whoever gets it begins by resetting it.

        Parameters
        ----------
        asked
            Threads that may still be in the policy when it is given back: it is free when they are out of it.

        Raises
        ------
        PolicyError
            It is in use, and can't be copied.
        """
        if self._free.acquire(blocking=False):
            try:
                yield self._policy
            finally:
                self._give_back([thread for thread in asked if thread.is_alive()])
        else:
            yield self._copied()

    def _copied(self) -> _P:
        try:
            return copy.deepcopy(self._policy)
        except Exception as error:
            raise PolicyError(
                f"The policy {self.name} is at work in another run, and a copy of it for this one failed "
                f"({type(error).__name__}: {error}). Give it a __deepcopy__, or give each run its own."
            ) from error

    def _give_back(self, asked: list[threading.Thread]) -> None:
        if not asked:
            self._free.release()
            return

        def release_later() -> None:
            for thread in asked:
                thread.join()
            self._free.release()

        threading.Thread(target=release_later, name="rlm_policy_left", daemon=True).start()
