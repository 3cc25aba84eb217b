"""`Templates`: which template a kernel is forked from, and what may share one.

Without a sandbox, kernels of one environment share a template as long as this process lives. A template inside a
sandbox serves the kernels of one run at a time: the next one of the same environment, which has the same owner and
the same rights, takes it over. Where a kernel outlives its run, another is made for the next meanwhile. Those of a
batch share some (`TemplateGroup`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlm_jupyter.kernel import template_pool
from rlm_jupyter.kernel.forked_kernel import KernelEnvironment, TemplateError
from rlm_jupyter.kernel.ready_kernel import K
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.shared_texts import SharedTexts
from rlm_jupyter.kernel.shield import in_a_thread
from rlm_jupyter.kernel.template import Template
from rlm_jupyter.kernel.template_group import TemplateGroup, places
from rlm_jupyter.types.errors import ConfigurationError

log = logging.getLogger(__name__)
VARIABLE = "RLM_TEMPLATES"
"""Set to 0, every kernel is started anew."""


def are_possible() -> bool:
    """Return whether kernels can be forked here, and nobody has switched it off."""
    return sys.platform == "linux" and hasattr(os, "pidfd_open") and os.environ.get(VARIABLE) != "0"


class Lease:
    """Keeps templates there for a kernel that may live on when the run is over that they served."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    async def close(self) -> None:
        """Need them no more. A second time does nothing."""
        await self._templates.give_up(self)


class Templates:
    """What the kernels of one run, of its children and of its samples are forked from.

    Parameters
    ----------
    preload
        Modules that a template imports before it forks.
    are_used
        Whether kernels are forked; else each is started anew.
    group
        Has the templates inside sandboxes, where other runs share them.
    """

    def __init__(
        self, preload: Sequence[str] = (), *, are_used: bool = True, group: TemplateGroup | None = None
    ) -> None:
        self._preload = tuple(preload)
        self._are_used = are_used
        self._group = group
        self._own: dict[KernelEnvironment, Template] = {}
        """Inside sandboxes: of this run alone, or those that it has of the group."""
        self._shared: KernelEnvironment | None = None
        """Of the last kernel without a sandbox."""
        self._anew: tuple[KernelEnvironment, Callable[[], Coroutine[Any, Any, Any]]] | None = None
        """Of the last kernel that was started anew, as none could be forked, and how."""
        self._leases: set[Lease] = set()
        self._is_closed = False
        self.texts = SharedTexts()
        """That these kernels have in common."""
        self.places = group.places if group is not None else places()  # of kernels that come up
        self.problem: str | None = None
        """Why a kernel was started anew, where it should have been forked."""

    def environment(
        self, kernel_name: str | None, cwd: Path, variables: Mapping[str, str] | None, sandbox: Sandbox
    ) -> KernelEnvironment:
        """Return what a template for such a kernel has to be like."""
        return KernelEnvironment.of(kernel_name, cwd, variables, sandbox, self._preload)

    def warm(self, environment: KernelEnvironment, start: Callable[[], Coroutine[Any, Any, K]] | None = None) -> None:
        """Start a template in the background, where none is there; it is the next run's, where it is shut off.

        Parameters
        ----------
        start
            Starts a kernel anew: where none can be forked, one waits for the next run. Default: none does.
        """
        if start is not None and self._can_wait(environment):
            template_pool.launch_ready(template_pool.current(), environment, start)
        elif self._are_used and are_possible():
            template_pool.warm(template_pool.current(), environment)

    async def waiting(self, environment: KernelEnvironment) -> Any:
        """Return a kernel that was started before it was asked for, where none can be forked; `None`: there is none."""
        if not self._can_wait(environment):
            return None
        pool = template_pool.current()
        with pool.lock:
            if not self._is_closed:
                pool.runs.add(self)
        ready = template_pool.take_launched(pool, environment)
        return None if ready is None else await ready.take()

    def expect_next(self, environment: KernelEnvironment, start: Callable[[], Coroutine[Any, Any, K]]) -> None:
        """Have a kernel wait for the next run, once this one is over; `start` as for `warm`."""
        if self._can_wait(environment):
            self._anew = environment, start

    def _can_wait(self, environment: KernelEnvironment) -> bool:
        """Return whether a kernel of this environment may wait that no template gives.

        Not on Windows, where nobody could remove the folder that it works in.
        """
        is_wanted = self._are_used and os.environ.get(VARIABLE) != "0" and sys.platform != "win32"
        return is_wanted and (not are_possible() or template_pool.current().gave_up(environment))

    def usable(self, environment: KernelEnvironment) -> Iterator[Template]:
        """Yield a template, and another one where that has failed; none, where that is of no use."""
        while self._are_used and are_possible() and not template_pool.current().gave_up(environment):
            yield self._get(environment)
        self.problem = template_pool.current().problems.get(environment)

    @contextlib.contextmanager
    def noting(self, template: Template) -> Iterator[None]:
        """Note whether it has given a kernel; where it has not, that is no error here.

        Raises
        ------
        ConfigurationError
            A module of `preload` can't be imported.
        TemplateError
            It has no room just now.
        """
        environment, pool = template.environment, template_pool.current()
        try:
            yield
        except TemplateError as error:
            if error.passes:
                raise
            if not error.imported:
                self._give_up(template)  # the next one may find it
                option = f"--preload: {error}."
                raise ConfigurationError(f"preload: {error}.", notebook=option, command=option) from None
            with pool.lock:
                failed = pool.failures.get(environment, 0) + 1
                pool.failures[environment] = template_pool.ATTEMPTS if error.unfit else failed
                if pool.gave_up(environment):
                    pool.problems[environment] = f"Kernels are started anew, which takes longer: {error}."
                    log.info("%s", pool.problems[environment])
            self._give_up(template)
        else:
            pool.failures.pop(environment, None)

    def refill(self) -> None:
        """Make the templates of the next run, which can't wait until this one leaves its own."""
        pool = template_pool.current()
        for environment in self._own if pool.has_next_run else ():
            template_pool.warm(pool, environment)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Be in use meanwhile, and not after it, though the kernel stays: one may wait for another run then."""
        pool = template_pool.current()
        with pool.lock:
            pool.runs.add(self)
        try:
            yield
        finally:
            template_pool.leave(pool, self, self._shared, *self._own)
            self._launch_next()

    def _launch_next(self) -> None:
        """Start the kernel of the next run, where none could be forked for this one."""
        if self._anew is not None:
            template_pool.launch_ready(template_pool.current(), *self._anew)

    def lease(self) -> Lease:
        """Return what keeps them there also when they are closed, until it is."""
        lease = Lease(self)
        self._leases.add(lease)
        return lease

    async def give_up(self, lease: Lease) -> None:
        """Take note that a lease is over; with the last one they are the next run's, once they are closed."""
        self._leases.discard(lease)
        if self._is_closed:
            await self.close()

    async def close(self) -> None:
        """Leave what served this run to the next one, unless somebody has a lease on it. A second time does nothing."""
        self._is_closed = True
        pool = template_pool.current()
        with pool.lock:
            pool.runs.discard(self)
        if self._leases:
            return
        template_pool.leave(pool, self, self._shared)
        self._launch_next()
        self._anew = None
        templates, self._own = list(self._own.values()), {}
        for template in templates:
            if self._group is not None:
                self._group.leave(template)
            elif not template_pool.take_back(pool, template):
                await in_a_thread(template.close)

    def _get(self, environment: KernelEnvironment) -> Template:
        pool = template_pool.current()
        with pool.lock:
            if not self._is_closed:
                pool.runs.add(self)
            if environment.sandbox.kind != "bwrap":
                self._shared = environment
                return template_pool.shared(pool, environment)
            template = self._own.get(environment)
            if template is not None and not template.has_ended:
                return template
            if self._group is not None:
                if template is not None:
                    self._give_up(template)
                template = self._group.take(environment)
            else:
                template = template_pool.alive(pool.spare.pop(environment, None)) or Template(environment)
                pool.claimed.add(template)
            self._own[environment] = template
            return template

    def _give_up(self, template: Template) -> None:
        """Ask it for no kernel any more, and end it, unless other runs of a group have kernels of it."""
        pool, environment = template_pool.current(), template.environment
        with pool.lock:
            is_own = self._own.get(environment) is template
            for templates in (pool.shared, self._own):
                if templates.get(environment) is template:
                    del templates[environment]
        if self._group is None or environment.sandbox.kind != "bwrap":
            pool.claimed.discard(template)
            template.close()
        elif is_own:  # else another kernel of this run has given it up before: other runs may have it
            self._group.leave(template, has_failed=True)
