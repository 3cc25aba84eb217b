"""The command line of bubblewrap: what a shut-off kernel sees.

An allow-list, because a list of what to hide is never complete: the system's programs and libraries, Python and
its packages, a private `/tmp`, and the folders that were named. Everything that can be written to is of a limited
size; the place of the kernel's sockets is taken away once the host is connected (`KernelProcess.seal`).
"""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Protocol

from rlm_jupyter.kernel.directory import places_in

HOME = "/tmp/home"
WORK = "/tmp/work"
"""Where its cells work when the caller's folder is not shown."""
_KEPT = "/var/tmp"
"""What the system keeps beyond a restart; inside, the same as `/tmp`."""
_BINDS = {"--bind", "--ro-bind", "--ro-bind-try"}
_NAMESPACES = "--unshare-all --unshare-user --disable-userns --die-with-parent --new-session"
_SHUT = (*_NAMESPACES.split(), "--cap-drop", "ALL", "--hostname", "sandbox")
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = """
    alternatives ca-certificates fonts group hosts ld.so.cache ld.so.conf ld.so.conf.d locale.alias localtime magic
    matplotlibrc mime.types nsswitch.conf os-release passwd pki protocols services ssl/certs ssl/cert.pem
    ssl/openssl.cnf timezone
"""
_OF_THE_MACHINE = ("/sys/devices/system/cpu", "/sys/kernel/mm/transparent_hugepage")
"""How many processors there are; and whether there are large pages, which glibc reads before it asks for any."""
_OF_A_PREFIX = "bin sbin lib lib32 lib64 libexec include share ssl conda-meta pyvenv.cfg"
"""A virtual environment often lies in the project's folder: that folder is not shown, only these of it."""
_OF_A_TEMPLATE = tuple(
    word for right in ("SYS_ADMIN", "SYS_RESOURCE", "SETFCAP") for word in ("--cap-add", f"CAP_{right}")
)
"""What it takes to forbid further user namespaces from the inside, and to show each kernel a `/proc` of its own.

A template gives it up as its first act (`guest/namespaces.py`); what is forbidden here, it forbids there."""
_LOOK_SECONDS = 10


@cache
def why_not() -> str | None:
    """Return why bubblewrap can't be used here, as sentences that say what to do; `None` when it can."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux."
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed. Install the package bubblewrap (apt-get install bubblewrap)."
    command = [program(), *_SHUT, "--ro-bind", "/", "/", "--proc", "/proc", "--size", "4096", "--tmpfs", "/tmp"]
    try:
        tried = subprocess.run(
            [*command, "--", "/bin/true"], capture_output=True, text=True, timeout=_LOOK_SECONDS, env={}, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{program()} can't be run: {error}."
    if tried.returncode == 0:
        return None
    said = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[0]
    if "Unknown option" in said:
        return f"{program()} is too old ({said}). Install bubblewrap 0.8 or newer."
    return f"{said}. This system allows no user namespaces, as in most containers; a container is a sandbox itself."


def program() -> str:
    """Return where bubblewrap is."""
    return shutil.which("bwrap") or "bwrap"


class ShownPaths(Protocol):
    """What a sandbox shows of the machine (`sandbox.Sandbox`)."""

    @property
    def disk(self) -> int:
        """Bytes of the private `/tmp`."""

    def folders(self) -> Iterator[tuple[Path, bool]]:
        """Return the folders and files that are shown, and whether code may change them."""

    def shows(self, folder: Path) -> bool:
        """Return whether the path is among them."""


def options(
    sandbox: ShownPaths, python: str, directory: Path, cwd: Path | None, *, template: bool = False
) -> list[str]:
    """Return what bubblewrap is told to shut a kernel off.

    Parameters
    ----------
    python
        The interpreter that it will run.
    directory
        The kernel's private directory; its `run` and `lib` are shown.
    cwd
        The working directory, where it is shown.
    template
        It will run no kernel, but what kernels are forked from; each of them gives up what this one may do.
    """
    size = str(sandbox.disk)
    private = ["--size", size, "--tmpfs", "/tmp", "--dir", HOME, "--dir", WORK]
    devices = ["--dev", "/dev", "--size", size, "--perms", "1777", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    # read-only: the numbers in /proc/sys are the whole machine's, and belong to root, who may be the one that runs this
    shut = _SHUT
    if template:
        shut = (*(word for word in _SHUT if word != "--disable-userns"), *_OF_A_TEMPLATE)
    begin = [*shut, "--proc", "/proc", *(() if template else ("--remount-ro", "/proc")), *devices, *private]
    words = [*_system(), *_python(python), *_fonts()]
    for path, changed in sorted(sandbox.folders()):  # a folder before what is in it
        words += ["--bind" if changed else "--ro-bind", str(path.resolve()), str(path)]
    hidden = [str(place) for place in places_in(path for path, _ in sandbox.folders())]
    for place in hidden:
        words += ["--size", "65536", "--perms", "0700", "--tmpfs", place]
    package = str(Path(__file__).parents[2])
    words += ["--ro-bind", package, package]
    if not template:
        words += ["--bind", str(directory / "run"), str(directory / "run")]
    words += ["--ro-bind-try", str(directory / "lib"), str(directory / "lib")]
    for place in hidden:
        words += ["--remount-ro", place]
    shown = cwd is not None and sandbox.shows(cwd) and not template
    words += ["--remount-ro", "/", "--chdir", str(cwd) if shown else WORK]
    # where something of it is shown, such as our own directory, it is a folder that nobody can write to
    shows = [place for bind, _, place in zip(words, words[1:], words[2:], strict=False) if bind in _BINDS]
    kept = any(Path(place).is_relative_to(_KEPT) for place in shows)
    begin += ["--dir", _KEPT] if kept else ["--symlink", "/tmp", _KEPT]
    # a process of its own reaps what the kernel leaves; seen from inside it is the parent, and never goes away
    return [*begin, *words, "--setenv", "JPY_PARENT_PID", "1"]


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM:
        path = Path(name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), name)
        elif path.is_dir():
            yield from ("--ro-bind", name, name)
    for name in (*(f"/etc/{name}" for name in _ETC.split()), "/nix/store", "/gnu/store", *_OF_THE_MACHINE):
        yield from ("--ro-bind-try", name, name)


def _python(program: str) -> Iterator[str]:
    """Yield the interpreter, its libraries, and the packages that were installed for it."""
    for prefix in dict.fromkeys(_prefixes(Path(shutil.which(program) or program))):
        if prefix.is_relative_to("/usr"):
            continue
        for name in _OF_A_PREFIX.split():
            if (prefix / name).exists():
                yield from ("--ro-bind", str((prefix / name).resolve()), str(prefix / name))
    own = site.getusersitepackages()
    if site.ENABLE_USER_SITE and Path(own).is_dir():
        yield from ("--ro-bind", own, own)


def _prefixes(program: Path) -> Iterator[Path]:
    if str(program) == sys.executable:
        yield from map(Path, (sys.base_prefix, sys.base_exec_prefix, sys.prefix, sys.exec_prefix))
    yield program.resolve().parents[1]
    yield program.absolute().parents[1]
    try:
        lines = (program.absolute().parents[1] / "pyvenv.cfg").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        name, _, value = line.partition("=")
        if name.strip() == "home":
            yield Path(value.strip()).parent


def _fonts() -> Iterator[str]:
    """Show Matplotlib's list of the fonts, which takes it seconds to make anew."""
    for listed in font_lists():
        yield from ("--ro-bind-try", str(listed), f"{HOME}/.cache/matplotlib/{listed.name}")


def font_lists() -> list[Path]:
    """Return Matplotlib's lists of fonts, in the cache of whoever runs this."""
    try:
        return list((Path.home() / ".cache" / "matplotlib").glob("fontlist-*.json"))
    except (OSError, RuntimeError):
        return []
