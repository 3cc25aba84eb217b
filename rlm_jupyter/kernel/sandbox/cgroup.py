"""A cgroup that bounds how many processes a shut-off kernel of root's may have.

For everybody else a limit of the user namespace does it (`guest/confine.py`); the system exempts root from that.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

_MOUNTS, _OWN = Path("/proc/self/mountinfo"), Path("/proc/self/cgroup")
_PREFIX = "rlm_jupyter-"


def hold(process: int, most: int, name: str) -> Path | None:
    """Put a process and all below it into a cgroup of at most so many processes.

    Parameters
    ----------
    name
        Of the kernel's directory; names the cgroup, too.

    Returns
    -------
    Path or None
        The cgroup, to be removed when they are gone; `None` where this system lets us make none.
    """
    for parent in _parents():
        made = parent / f"{_PREFIX}{name}"
        try:
            made.mkdir()
        except OSError:
            continue
        try:
            (made / "pids.max").write_text(str(most))
            for number in _below(process):
                (made / "cgroup.procs").write_text(str(number))
        except OSError:
            release(made, name)
            continue
        return made
    return None


def release(made: Path, name: str) -> bool:
    """Remove the cgroup that `hold` made for a kernel's directory, and nothing else.

    Returns
    -------
        Whether it is gone: it stays as long as a process is in it.
    """
    try:
        is_cgroup = any(made.parent.resolve().is_relative_to(mount) for mount, *_ in _mounts())
        if is_cgroup and made.name == f"{_PREFIX}{name}":
            made.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _mounts() -> Iterator[tuple[Path, str, list[str]]]:
    """Yield where the file systems of cgroups are: folder, kind and options of each."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        for line in _MOUNTS.read_text().splitlines():
            fields = line.split()
            kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
            if kind in {"cgroup", "cgroup2"}:
                yield Path(fields[4]), kind, options


def _parents() -> Iterator[Path]:
    """Yield where a cgroup that counts processes could be made."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        own = dict(line.split(":", 2)[1:] for line in _OWN.read_text().splitlines())
        for mount, kind, options in _mounts():
            if kind == "cgroup" and "pids" in options:
                path = next((path for names, path in own.items() if "pids" in names.split(",")), "/")
                yield mount / path.lstrip("/")
            elif kind == "cgroup2":
                # beside our own: one that has processes can't divide what it has
                yield (mount / own.get("", "/").lstrip("/")).parent if own.get("", "/") != "/" else mount


def _below(process: int) -> Iterator[int]:
    yield process
    with contextlib.suppress(OSError):
        for number in Path(f"/proc/{process}/task/{process}/children").read_text().split():
            yield from _below(int(number))
