"""`TemplatePool`: the templates of this process that no run has to itself, and what is known of those that failed.

Where none can be, the one kernel that waits for the next run.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from rlm_jupyter.kernel.forked_kernel import KernelEnvironment
from rlm_jupyter.kernel.ready_kernel import K, ReadyKernel
from rlm_jupyter.kernel.template import Template

ATTEMPTS = 2
"""How many templates of one environment may fail before kernels of it are started anew."""
_MOST_SHARED = 3
"""Templates that are kept without a sandbox; the one that was used longest ago goes first."""
_MOST_SPARE = 1
"""Inside sandboxes, likewise."""
_LEAST_MEMORY = 500_000_000
"""Bytes that must be left for a kernel to wait for a run that may never come."""


class TemplatePool:
    """The templates of this process that no run has to itself."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.process = os.getpid()
        self.shared: dict[KernelEnvironment, Template] = {}
        self.spare: dict[KernelEnvironment, Template] = {}
        """Inside sandboxes, for runs to come."""
        self.claimed: set[Template] = set()
        self.launched: ReadyKernel[Any] | None = None
        """A kernel that is started anew, and waits for the next run: no template gives one."""
        self.failures: dict[KernelEnvironment, int] = {}
        self.problems: dict[KernelEnvironment, str] = {}
        self.runs: weakref.WeakSet[object] = weakref.WeakSet()
        """That have templates now."""
        self.has_next_run = True
        """Another run may follow, for which a template is made before it is asked for."""
        atexit.register(self.close)

    def gave_up(self, environment: KernelEnvironment) -> bool:
        """Return whether so many templates of an environment have failed that kernels of it are started anew."""
        return self.failures.get(environment, 0) >= ATTEMPTS

    def close(self) -> None:
        """End all templates; in a fork of their process nothing is done."""
        if os.getpid() == self.process:
            with self.lock:
                templates = [*self.shared.values(), *self.spare.values(), *self.claimed]
                self.shared, self.spare, self.claimed = {}, {}, set()
                launched, self.launched = self.launched, None
            for template in templates:
                template.close()
            if launched is not None:
                launched.close()


_pool = TemplatePool()


def current() -> TemplatePool:
    """Return the pool of this process: a fork of the host has none of its templates."""
    global _pool
    if _pool.process != os.getpid():
        _pool = TemplatePool()
    return _pool


def expect_no_next_run() -> None:
    """Make no template for a run that follows: there will be none in this process."""
    current().has_next_run = False


def warm(pool: TemplatePool, environment: KernelEnvironment) -> None:
    """Start a template in the background, where none is there; inside a sandbox it is the next run's."""
    with pool.lock:
        if pool.gave_up(environment):
            return
        if environment.sandbox.kind != "bwrap":
            template = shared(pool, environment)
        elif (spare := alive(pool.spare.get(environment))) is not None:
            template = spare
        else:
            _make_room(pool)
            template = pool.spare[environment] = Template(environment)
        make_ready(pool, template)


def leave(pool: TemplatePool, run: object, *environments: KernelEnvironment | None) -> None:
    """Take note that a run is over, or rests: a kernel of one of these environments may wait for the next run."""
    with pool.lock:
        pool.runs.discard(run)
        for environment in environments:
            template = None if environment is None else pool.shared.get(environment) or pool.spare.get(environment)
            if template is not None:
                make_ready(pool, template)


def make_ready(pool: TemplatePool, template: Template) -> None:
    """Have a kernel wait for the next run, where no run is under way; of all templates, one has one at a time."""
    if pool.runs or not pool.has_next_run or not _has_memory():
        return
    for other in (*pool.shared.values(), *pool.spare.values()):
        if other is not template:
            other.drop_ready()
    with contextlib.suppress(RuntimeError):  # no thread can be started, or none any more: the next run waits longer
        template.make_ready()


def launch_ready(
    pool: TemplatePool, environment: KernelEnvironment, start: Callable[[], Coroutine[Any, Any, K]]
) -> None:
    """Have a kernel wait for the next run that is started anew, where no run is under way; there is one at a time."""
    with pool.lock:
        if pool.runs or not pool.has_next_run or not _has_memory():
            return
        if (waits := pool.launched) is not None:
            if waits.environment == environment and not waits.is_spent:
                return
            waits.discard()
        pool.launched = None
        with contextlib.suppress(RuntimeError):  # no thread can be started: the next run waits longer
            pool.launched = ReadyKernel(environment, start, expires=True)


def take_launched(pool: TemplatePool, environment: KernelEnvironment) -> ReadyKernel[Any] | None:
    """Return what waits for a run of this environment; one of another ends, as it is to see nothing of that run."""
    with pool.lock:
        waits, pool.launched = pool.launched, None
        if waits is None or waits.environment == environment:
            return waits
        waits.discard()
        return None


def _has_memory() -> bool:
    import psutil

    return bool(psutil.virtual_memory().available > _LEAST_MEMORY)


def _make_room(pool: TemplatePool) -> None:
    while len(pool.spare) >= _MOST_SPARE:
        end(pool.spare.pop(next(iter(pool.spare))))


def take_back(pool: TemplatePool, template: Template) -> bool:
    """Keep a template that a run had in a sandbox for the next run of its environment; return whether it is kept."""
    with pool.lock:
        pool.claimed.discard(template)
        if template.has_ended:
            return False
        if (other := pool.spare.pop(template.environment, None)) is not None:  # it may have imported nothing yet
            end(other)
        _make_room(pool)
        pool.spare[template.environment] = template
        template.rest()
        make_ready(pool, template)
        return True


def shared(pool: TemplatePool, environment: KernelEnvironment) -> Template:
    """Return the template of an environment without a sandbox, started where none is there."""
    template = alive(pool.shared.pop(environment, None)) or Template(environment)
    pool.shared[environment] = template  # the last one in the order of use
    while len(pool.shared) > _MOST_SHARED:
        end(pool.shared.pop(next(iter(pool.shared))))
    return template


def alive(template: Template | None) -> Template | None:
    """Return a template that lives; one that has ended is put away."""
    if template is not None and template.has_ended:
        end(template)
        return None
    return template


def end(template: Template) -> None:
    """End a template; returns at once."""
    try:
        threading.Thread(target=template.close, name="rlm_jupyter template", daemon=True).start()
    except RuntimeError:  # the interpreter exits, and starts no threads any more
        template.close()
