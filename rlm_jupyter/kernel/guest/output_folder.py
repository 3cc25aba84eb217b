"""`OutputFolder`: where cells leave the files that they are to make; the host is handed their bytes, and opens none.

The host never follows a path that a cell could have written: it is sent what the kernel itself can read. The checks
here are for clear messages; what counts is checked in the host, on the bytes that came.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Any

NAME = "OUTPUTS"
"""The folder's name in the namespace."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_KINDS = {
    stat.S_IFLNK: "is a link",
    stat.S_IFDIR: "is a folder",
    stat.S_IFIFO: "is a pipe",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
}


class OutputFolder:
    """A folder of its own among the temporary files of this kernel."""

    def __init__(self) -> None:
        self.path = Path(tempfile.gettempdir()) / "outputs"
        self.path.mkdir(mode=0o700, exist_ok=True)

    def read(self, name: str, most: int) -> tuple[dict[str, Any], list[bytes]]:
        """Return a file's bytes, or what is wrong with it.

        Parameters
        ----------
        name
            The file's, in this folder.
        most
            Bytes that it may have.
        """
        path = self.path / name
        try:
            kind = stat.S_IFMT(path.lstat().st_mode)
            if kind != stat.S_IFREG:
                return {"problem": f"{_KINDS.get(kind, 'is no file')}, not a file"}, []
            with open(os.open(path, _FLAGS), "rb") as file:  # noqa: PTH123  flags
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    return {"problem": "is not a file"}, []
                if about.st_size > most:
                    return {"problem": f"has {about.st_size:,} bytes; {most:,} are the most"}, []
                return {"problem": ""}, [file.read(most + 1)]
        except FileNotFoundError:
            return {"problem": self._missing(name)}, []
        except OSError as error:
            return {"problem": f"can't be read: {error.strerror or error}"}, []

    def _missing(self, name: str) -> str:
        elsewhere = Path(name)
        if elsewhere.is_file() and not elsewhere.is_symlink():
            return f"is missing in {NAME}; there is one in the working directory: write it to {NAME} / {name!r}"
        return f"is missing: write it to {NAME} / {name!r}"
