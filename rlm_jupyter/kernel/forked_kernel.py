"""`ForkedKernel`, and the `KernelEnvironment` that kernels of one template have in common."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm_jupyter.kernel.command import passed_on
from rlm_jupyter.kernel.directory import KernelDirectory
from rlm_jupyter.kernel.sandbox.sandbox import Sandbox
from rlm_jupyter.kernel.shield import in_a_thread, run_to_completion
from rlm_jupyter.kernel.supervised_process import SupervisedProcess

_END_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class KernelEnvironment:
    """What kernels of one template have in common."""

    kernel_name: str | None
    cwd: Path
    variables: tuple[tuple[str, str], ...]
    """Those that were named, beyond what every kernel gets."""
    passed: tuple[tuple[str, str], ...]
    """What every kernel gets of the host's, as it was then."""
    sandbox: Sandbox
    preload: tuple[str, ...] = ()
    """Modules that the template imports first."""
    shown: tuple[tuple[int, int], ...] = ()
    """Device and number of each file or folder that the sandbox shows: what has taken its place since is another."""

    @classmethod
    def of(
        cls,
        kernel_name: str | None,
        cwd: Path,
        variables: Mapping[str, str] | None,
        sandbox: Sandbox,
        preload: Sequence[str],
    ) -> KernelEnvironment:
        """Make one of what a kernel is started with, and of this process's environment."""
        return cls(
            kernel_name,
            cwd.absolute(),
            tuple(sorted((variables or {}).items())),
            tuple(sorted(passed_on().items())),
            sandbox,
            tuple(preload),
            tuple(identity(path) for path, _ in sandbox.folders()) if sandbox.kind == "bwrap" else (),
        )


def identity(path: Path) -> tuple[int, int]:
    """Return what tells a file or folder from one that takes its place under the same name."""
    try:
        found = path.stat()
    except OSError:  # that is told when it is to be shown
        return 0, 0
    return found.st_dev, found.st_ino


class TemplateError(Exception):
    """A template gives no kernel; the text says why, where that is known."""

    def __init__(self, why: str, *, unfit: bool = False, imported: bool = True, passes: bool = False) -> None:
        super().__init__(why)
        self.passes = passes
        """It has no room for one just now, and those that it has given go on."""
        self.imported = imported
        """The modules that were named could be imported."""
        self.unfit = unfit
        """Another one of the same environment would give none either."""


@dataclass(frozen=True, slots=True)
class ForkedKernel:
    """A kernel that has just been forked: nobody is connected to it."""

    directory: KernelDirectory
    connection: dict[str, Any]
    """What stands in its connection file."""
    process: SupervisedProcess

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self.process.poll() is not None

    async def hold(self, processes: int | None) -> None:
        """Bound the number of processes inside its sandbox; `None`: there is none.

        It takes the system some milliseconds, in which the kernel comes up: nothing of a model's runs there yet.
        """
        if processes is not None and os.geteuid() == 0:
            await run_to_completion(lambda: in_a_thread(lambda: self.directory.hold(self.process.pid, processes)))

    def end(self) -> None:
        """End it, and remove its directory. Wait until it is gone, for a few milliseconds."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_SECONDS)
        for directory in self.process.close(self.directory):
            directory.remove()
