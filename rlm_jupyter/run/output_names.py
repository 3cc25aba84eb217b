"""What the files of a run may be called: on every system, and beside each other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import PurePath

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted

_NAME_BYTES = 200
_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"|?*\ud800-\udfff]')
"""No file has such a name on every system."""
_DEVICE = re.compile(r"(CON|PRN|AUX|NUL|COM[\d¹²³]|LPT[\d¹²³]|CONIN\$|CONOUT\$) *(\..*)?", re.IGNORECASE)
"""Such a name is a device on Windows, whatever it ends in."""


def check_name(name: object) -> None:
    """Refuse what is no plain name of a file, on any system."""
    if not isinstance(name, str) or not name.strip():
        needed = f"the name of a file is needed, not {quoted(name)}."
        by_option = f"--output: {needed}"
        raise ConfigurationError(f"outputs: {needed}", notebook=by_option, command=by_option)
    if name in {".", ".."} or "/" in name or "\\" in name:
        plain = f"{quoted(name)} is a path: give the plain name of a file;"
        by_option = f"--output {plain} --output-dir says where it goes."
        raise ConfigurationError(
            f"outputs: {plain} output_dir says where it goes.", notebook=by_option, command=by_option
        )
    if "," in name and all(PurePath(part.strip()).suffix for part in name.split(",")):
        raise ConfigurationError(
            f"outputs: {quoted(name)} names several files: a list has each by itself.",
            notebook=(by_option := f"--output {quoted(name)} names several files: give each its own --output."),
            command=by_option,
        )
    is_odd = _FORBIDDEN.search(name) or _DEVICE.fullmatch(name) or name != name.strip() or name.endswith(".")
    if is_odd or len(name.encode()) > _NAME_BYTES:
        raise ConfigurationError(f"outputs: {quoted(name)} is no name that a file can have everywhere.")


def check_distinct(names: Sequence[str]) -> None:
    """Refuse names that are one file on some systems."""
    seen: dict[str, str] = {}
    for name in names:
        key = unicodedata.normalize("NFC", name).casefold()
        if (other := seen.get(key)) is not None:
            is_same = other == name
            raise ConfigurationError(
                f"outputs names {quoted(name)} twice."
                if is_same
                else f"outputs: {quoted(other)} and {quoted(name)} are one file on some systems: give them other names."
            )
        seen[key] = name
