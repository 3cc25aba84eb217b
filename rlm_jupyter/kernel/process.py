"""`KernelProcess`: a kernel's process through `jupyter_client`, in a private place of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import site
import string
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel
from jupyter_client.manager import AsyncKernelManager
from traitlets import Instance

from rlm_jupyter.kernel.directory import Place
from rlm_jupyter.kernel.guest.confine import VARIABLE
from rlm_jupyter.kernel.provisioner import GuestProvisioner
from rlm_jupyter.kernel.sandbox import bwrap
from rlm_jupyter.kernel.sandbox.sandbox import NO_SANDBOX, Sandbox
from rlm_jupyter.kernel.sandbox.undumpable import hide
from rlm_jupyter.kernel.shield import see_through
from rlm_jupyter.types.errors import ConfigurationError, KernelStartError
from rlm_jupyter.types.quoted import quoted

_GUEST = "rlm_jupyter.kernel.guest"
_NAMES = """
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TEMP TMP TERM PYTHONPATH VIRTUAL_ENV CONDA_PREFIX
    LD_LIBRARY_PATH DYLD_LIBRARY_PATH OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS SYSTEMROOT SYSTEMDRIVE
    WINDIR COMSPEC PATHEXT APPDATA LOCALAPPDATA PROGRAMDATA USERPROFILE
"""
PASSED_ON = frozenset(_NAMES.split())
"""What a kernel gets of the host's environment, with `LC_*`: an allow-list, so that no key is ever in it.

`HOME` and the places for temporary files are its own, where tools look for credentials of the user's.
"""

_KILL_POLLS = 1_000
"""How often it is looked, a millisecond apart, whether a killed process is gone."""


class _OneSpec(KernelSpecManager):
    """Knows one kernelspec: the guest's."""

    spec = Instance(KernelSpec)

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        return self.spec


class KernelProcess:
    """A started kernel process, its connection, and the news of its death.

    Use `await KernelProcess.launch(...)`.
    """

    def __init__(self, km: AsyncKernelManager, place: Place) -> None:
        self._km = km
        self._place = place
        self._fd: int | None = None
        self._watcher: asyncio.Task[None] | None = None

    @classmethod
    async def launch(
        cls,
        *,
        kernel_name: str | None = None,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
    ) -> KernelProcess:
        """Start the guest application. From now on, this process's own memory is closed to its user (`hide`).

        Parameters
        ----------
        kernel_name
            A kernelspec whose Python is used; default: the interpreter that runs this.
        cwd
            The kernel's working directory; default: the caller's.
        environment
            Variables beyond `PASSED_ON`.
        sandbox
            What shuts it off from the machine; default: nothing.

        Raises
        ------
        ConfigurationError
            No such kernelspec, or no such directory.
        KernelStartError
            The process could not be started.
        """
        hide()
        place = Place()
        km: AsyncKernelManager | None = None
        try:
            sandbox = (sandbox or NO_SANDBOX).chosen()
            argv, env = _command(kernel_name, place.path, sandbox)
            where = _directory(cwd)
            spec = KernelSpec(argv=argv, language="python", display_name="rlm")
            km = AsyncKernelManager(
                kernel_name="rlm",
                kernel_spec_manager=_OneSpec(spec=spec),
                connection_file=str(place.path / "run" / "k.json"),
                transport="ipc" if sys.platform != "win32" else "tcp",
            )
            provisioner = GuestProvisioner(parent=km, kernel_id="rlm", kernel_spec=spec)
            provisioner.shut_off(sandbox, place)
            km.provisioner = provisioner
            try:
                await km.start_kernel(env={**env, **(environment or {})}, cwd=str(where))
            except OSError as error:
                raise KernelStartError(f"The kernel could not be started: {error}.") from error
        except BaseException:
            if km is not None and km.has_kernel:
                # start_kernel sleeps after it has started the process: whoever is cancelled there has one
                await cls(km, place).kill()
            place.remove()
            raise
        return cls(km, place)

    @property
    def key(self) -> bytes:
        """The connection's signing key."""
        return bytes(self._km.session.key)

    @property
    def _provisioner(self) -> Any:
        return self._km.provisioner

    @property
    def pid(self) -> int:
        """Of the kernel's process, or of its supervisor, which ends as that does."""
        return int(self._provisioner.pid)

    def url(self, channel: str) -> str:
        """Where `shell`, `control` or `iopub` can be reached."""
        km: Any = self._km
        port = getattr(km, f"{channel}_port")
        return f"ipc://{km.ip}-{port}" if km.transport == "ipc" else f"tcp://{km.ip}:{port}"

    def on_death(self, tell: Callable[[int | None], None]) -> None:
        """Call `tell` with the exit code as soon as the process ends."""
        loop = asyncio.get_running_loop()
        provisioner = self._provisioner
        process = provisioner.process

        def ended() -> None:
            self._unwatch()
            tell(provisioner.exit_code())

        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._fd = os.pidfd_open(self.pid)
                loop.add_reader(self._fd, ended)
                return

        async def watch() -> None:
            while process.poll() is None:  # noqa: ASYNC110  nothing tells of it on this platform
                await asyncio.sleep(0.2)
            tell(process.returncode)

        self._watcher = asyncio.create_task(watch())

    def seal(self) -> None:
        """Take away what only the kernel's start needed, before any cell runs."""
        self._provisioner.hold()
        self._place.seal()

    @property
    def last_words(self) -> str:
        """What a kernel that did not come up has said of it, where we know."""
        return str(self._provisioner.last_words())

    async def interrupt(self) -> None:
        """Send SIGINT to the kernel and what it started."""
        with contextlib.suppress(ProcessLookupError, RuntimeError):
            await self._km.interrupt_kernel()

    async def kill(self) -> None:
        """End the process and all it started at once, and remove its private directory. Twice does no harm."""
        await see_through(self._kill)

    async def _kill(self) -> None:
        self._unwatch()
        provisioner = self._provisioner
        try:
            if provisioner.process is not None:
                if sys.platform != "win32":
                    provisioner.end()
                    # jupyter_client looks every 0.1 s whether it is gone; it is in a few ms
                    for _ in range(_KILL_POLLS):
                        if provisioner.process.poll() is not None:
                            break
                        await asyncio.sleep(0.001)
                await self._km.shutdown_kernel(now=True)
        finally:
            provisioner.release()
            self._place.remove()

    def _unwatch(self) -> None:
        if self._fd is not None:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = None
        if self._watcher is not None and self._watcher is not asyncio.current_task():
            self._watcher.cancel()
            self._watcher = None


def _directory(cwd: str | Path | None) -> Path:
    where = Path(cwd or Path.cwd())
    if not where.is_dir():
        raise ConfigurationError(f"The kernel's working directory {where} does not exist.")
    return where


def _command(kernel_name: str | None, place: Path, sandbox: Sandbox) -> tuple[list[str], dict[str, str]]:
    """Return the command line that starts the guest, and its environment."""
    env = {name: value for name, value in os.environ.items() if name.upper() in PASSED_ON or name.startswith("LC_")}
    env |= _own_places(place, sandbox) | {"PYTHONHASHSEED": "0", VARIABLE: _confined(sandbox)}
    argv = [sys.executable, "-m", _GUEST, "-f", "{connection_file}"]
    if kernel_name is not None:
        try:
            spec = KernelSpecManager().get_kernel_spec(kernel_name)
        except NoSuchKernel:
            known = ", ".join(sorted(KernelSpecManager().find_kernel_specs())) or "none"
            raise ConfigurationError(f"There is no kernelspec {quoted(kernel_name)}. Installed: {known}.") from None
        if spec.language.lower() != "python":
            raise ConfigurationError(
                f"The kernelspec {quoted(kernel_name)} is {spec.language}; the kernel must be Python."
            )
        if not {"ipykernel_launcher", "ipykernel"} & set(spec.argv):
            raise ConfigurationError(f"The kernelspec {quoted(kernel_name)} does not start ipykernel.")
        argv = [_GUEST if word in {"ipykernel_launcher", "ipykernel"} else word for word in spec.argv]
        env |= {name: string.Template(value).safe_substitute(os.environ) for name, value in spec.env.items()}
    if kernel_name is not None or sandbox.kind == "bwrap":
        # it may not find this package where we do: show it just our own directory
        library = place / "lib"
        library.mkdir()
        (library / "rlm_jupyter").symlink_to(Path(__file__).parents[1], target_is_directory=True)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(library), env.get("PYTHONPATH")]))
    return [*argv, "--HistoryManager.enabled=False"], env


def _own_places(place: Path, sandbox: Sandbox) -> dict[str, str]:
    """Where it keeps files of its own, and finds the packages that its user has installed."""
    if sandbox.kind == "bwrap":
        home, tmp = bwrap.HOME, "/tmp"
    else:
        home, tmp = str(place / "home"), str(place / "tmp")
        fonts = place / "home" / ".cache" / "matplotlib"
        for listed in bwrap.font_lists():
            fonts.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(OSError):
                shutil.copy(listed, fonts)
    if sys.platform == "win32":
        return {"IPYTHONDIR": str(place / "home" / "ipython")}
    base = site.getuserbase()
    return {"HOME": home, "TMPDIR": tmp, "IPYTHONDIR": f"{home}/.ipython"} | ({"PYTHONUSERBASE": base} if base else {})


def _confined(sandbox: Sandbox) -> str:
    """Return what the guest is to give up by itself (`guest/confine.py`)."""
    boxed = sandbox.kind == "bwrap"
    asked = {
        "parent": 0 if boxed else os.getpid(),
        "memory": sandbox.memory,
        "processes": sandbox.processes if boxed else None,
    }
    return json.dumps(asked)
