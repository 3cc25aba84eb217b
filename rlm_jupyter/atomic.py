"""Files that are replaced whole or not at all, whatever happens to the process in between."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterable
from pathlib import Path


def replace(path: Path, buffers: Iterable[bytes | memoryview], *, sync: bool = True) -> None:
    """Make `buffers` the content of `path`, which nobody ever sees half-written.

    Parameters
    ----------
    path
        Its folder exists. A symbolic link stays one: what it points to is replaced.
    buffers
        Written one after the other, without being joined first.
    sync
        Wait until the bytes are on the disk, so that the file survives a power cut too.

    Raises
    ------
    OSError
        The folder or the disk refuses; `path` is as it was.
    """
    path = Path(os.path.realpath(path))
    # in the same folder, because a rename does not cross file systems; plain `open`, so that the umask holds
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.writelines(buffers)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            temporary.chmod(path.stat().st_mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
