"""`TemplateGroup`: templates inside sandboxes that several runs share, as those of a batch do.

All these runs have one owner, and kernels of one environment have one sandbox with the same rights. A template runs
nothing of a model's, and each kernel that it forks has namespaces of its own (`guest/namespaces.py`), so no run sees
another's processes, files or memory. What they do have in common is the limit of processes, and an end: so each
template serves a few at a time.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from rlm_jupyter.kernel import template_pool
from rlm_jupyter.kernel.forked_kernel import KernelEnvironment
from rlm_jupyter.kernel.template import Template

_MOST_RUNS = 16
"""That have one template at a time."""
_REST_SECONDS = 30.0
"""How long a template that no run has stays, for the next one."""


@dataclass(slots=True)
class _Shared:
    """A template of the group."""

    runs: int = 0
    """That have it."""
    is_failed: bool = False
    """It gives no kernel any more; those that it has given live on."""
    resting: asyncio.TimerHandle | None = None


def places() -> asyncio.Semaphore:
    """Return places for as many kernels as come up at the same time, of one run or one batch; used on one event loop.

    To come up is work for a processor. While one waits, as for its host, others use that; with more than a few, each
    takes longer, and so do all.
    """
    return asyncio.Semaphore((os.cpu_count() or 1) + 1)


class TemplateGroup:
    """The templates; used on one event loop, and to be closed."""

    def __init__(self) -> None:
        self._templates: dict[Template, _Shared] = {}
        self._is_closed = False
        self.places = places()
        """Of kernels that come up at the same time, for all runs of the group."""

    def take(self, environment: KernelEnvironment) -> Template:
        """Return a template for a run, which is to `leave` it; started where none has room.

        Raises
        ------
        KernelStartError, ConfigurationError
            There can be none, nor any other kernel.
        """
        for template, shared in self._templates.items():
            has_room = template.environment == environment and shared.runs < _MOST_RUNS
            if has_room and not shared.is_failed and not template.has_ended:
                break
        else:
            pool = template_pool.current()
            with pool.lock:
                template = template_pool.alive(pool.spare.pop(environment, None)) or Template(environment)
                pool.claimed.add(template)
            shared = self._templates[template] = _Shared()
        if shared.resting is not None:
            shared.resting.cancel()
        shared.runs += 1
        return template

    def leave(self, template: Template, *, has_failed: bool = False) -> None:
        """Need it no more, for this run.

        Parameters
        ----------
        has_failed
            It has given no kernel: it is given to no other run, and ends with the last one that has it.
        """
        shared = self._templates[template]
        shared.runs -= 1
        shared.is_failed = shared.is_failed or has_failed
        if shared.runs:
            return
        if shared.is_failed or self._is_closed:
            self._end(template)
        else:
            shared.resting = asyncio.get_running_loop().call_later(_REST_SECONDS, self._end, template)

    def close(self) -> None:
        """End those that no run has, and each other one with its last run; returns at once."""
        self._is_closed = True
        for template in [template for template, shared in self._templates.items() if not shared.runs]:
            self._end(template)

    def _end(self, template: Template) -> None:
        resting = self._templates.pop(template).resting
        if resting is not None:
            resting.cancel()
        template_pool.current().claimed.discard(template)
        template_pool.end(template)
