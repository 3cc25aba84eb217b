"""`Sandbox`: what keeps a model's code from the rest of the machine, and what it may see all the same."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from rlm_jupyter.kernel.directory import folder_of_all
from rlm_jupyter.kernel.sandbox import bwrap, container
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

log = logging.getLogger(__name__)

VARIABLE = "RLM_SANDBOX"
"""The kind where none is named."""
Kind = Literal["auto", "bwrap", "docker", "podman", "none"]
_KINDS = "auto, bwrap, docker, podman and none"
_GIB = 1024**3
_PROCESSES = 4_096
_OWN = ("/proc", "/dev", "/sys")
_SHARED_MEMORY = Path("/dev/shm")
"""A kernel has one of its own, and files and folders in that of the machine may be shown in it, as in `/tmp`."""


def _folders(name: str, given: str | Path | Sequence[str | Path]) -> tuple[Path, ...]:
    """Return absolute paths that are there and can be shown."""
    folders = []
    for folder in (given,) if isinstance(given, str | Path) else given:
        path = Path(folder).expanduser().absolute()
        if not path.exists():
            raise ConfigurationError(f"Sandbox({name}=…): {path} does not exist.")
        real = path.resolve()
        is_systems = any(map(real.is_relative_to, _OWN)) and _SHARED_MEMORY not in real.parents
        if str(real) in {"/", "/tmp"} or is_systems or real.is_relative_to(folder_of_all().resolve()):
            raise ConfigurationError(f"Sandbox({name}=…): {path} can't be shown; name a folder inside it.")
        folders.append(path)
    return tuple(folders)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """How kernels are shut off.

    Raises
    ------
    ConfigurationError
        No such sandbox, no such folder, a number that can't be.
    """

    kind: Kind = "auto"
    """`bwrap`: by bubblewrap (Linux): no network, no other process, no file but the system's, Python's and those in
    `read` and `write`. `docker`, `podman`: the same in a container, of whose image the files are (any system). `none`:
    the code has the rights of whoever started it. `auto`: `bwrap` where it works, else `none`."""
    read: Sequence[str | Path] = ()
    """Folders and files that are shown read-only, under `bwrap`; the rest of what is yours is not there."""
    write: Sequence[str | Path] = ()
    """Folders and files that it may change as well."""
    memory: int | None = None
    """Bytes of data that each process of a kernel may hold; beyond, `MemoryError`. Holds without `bwrap` too."""
    disk: int = _GIB
    """Bytes of the private `/tmp`, under `bwrap`, and of `/dev/shm`; both are in memory."""
    processes: int = _PROCESSES
    """Processes and threads at once, under `bwrap` and in containers."""
    image: str = container.IMAGE
    """The image of containers: Python 3.11 or newer, with ipykernel."""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            option = f"--sandbox {self.kind}: there is {_KINDS}."
            raise ConfigurationError(
                f"sandbox={quoted(self.kind)}: there is {_KINDS}.", notebook=option, command=option
            )
        if not str(self.image).strip() or str(self.image).startswith("-"):
            raise ConfigurationError(f"Sandbox(image={quoted(self.image)}): the name of an image is needed.")
        for name in ("read", "write"):
            object.__setattr__(self, name, _folders(name, getattr(self, name)))
        for name in ("memory", "disk", "processes"):
            value = getattr(self, name)
            if value is None and name == "memory":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ConfigurationError(f"Sandbox({name}={quoted(value)}): a whole number above zero is needed.")

    @classmethod
    def of(cls, value: str | Mapping[str, Any] | Sandbox | None) -> Sandbox:
        """Make a sandbox from its name, its fields, or itself; without a kind, that of `RLM_SANDBOX`, or `auto`.

        Raises
        ------
        ConfigurationError
            It is neither; or it is `bwrap`, `docker` or `podman`, and that does not work here.
        """
        if isinstance(value, Sandbox):
            sandbox = value
        else:
            given = dict(value) if isinstance(value, Mapping) else {"kind": value}
            if given.get("kind") is None:
                given["kind"] = os.environ.get(VARIABLE) or "auto"
            try:
                sandbox = cls(**given)
            except TypeError:
                raise ConfigurationError(f"sandbox={quoted(value)}: a name, or a Sandbox(...), is needed.") from None
        if sandbox.kind == "bwrap" and (why := bwrap.why_not()) is not None:
            raise ConfigurationError(f"sandbox='bwrap' does not work here: {why}")
        if sandbox.is_container and (why := container.why_not(sandbox.kind, sandbox.image)) is not None:
            raise ConfigurationError(f"sandbox='{sandbox.kind}' does not work here: {why}")
        return sandbox

    @property
    def is_container(self) -> bool:
        """Whether kernels are in containers."""
        return self.kind in {"docker", "podman"}

    @property
    def shuts_off(self) -> bool:
        """Whether kernels see neither the network nor files that were not named."""
        return self.kind == "bwrap" or self.is_container

    def chosen(self) -> Self:
        """Return the same, with `auto` decided: nothing is shut off where nothing can."""
        if self.kind != "auto":
            return self
        why = bwrap.why_not()
        if why is None:
            return replace(self, kind="bwrap")
        log.info("No sandbox: %s", why)
        return replace(self, kind="none")

    def folders(self) -> Iterator[tuple[Path, bool]]:
        """Yield what is shown, and whether it may be changed."""
        yield from ((Path(path), False) for path in self.read)
        yield from ((Path(path), True) for path in self.write)

    def shows(self, folder: Path) -> bool:
        """Return whether a folder is there for the code."""
        return self.kind == "none" or any(folder.is_relative_to(path) for path, _ in self.folders())

    def asked(self) -> dict[str, Any]:
        """Return its kind, and what else is not the default, as plain data: `Sandbox.of` takes it."""
        given = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "kind"}
        plain = given | {name: [str(path) for path in given[name]] for name in ("read", "write")}
        defaults: dict[str, Any] = {"read": [], "write": [], "memory": None, "disk": _GIB, "processes": _PROCESSES}
        defaults["image"] = container.IMAGE
        return {"kind": self.kind} | {name: value for name, value in plain.items() if value != defaults[name]}


NO_SANDBOX = Sandbox("none")
