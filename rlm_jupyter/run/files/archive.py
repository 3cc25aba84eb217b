"""`unpacked`, `repacked`, `decompressed`: archives and compressed files; nothing of them is ever written to disk.

What an archive says of itself is not trusted: sizes are added up before anything is inflated, and of
each member no more is inflated than it declares.
"""

from __future__ import annotations

import importlib
import io
import lzma
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import PurePosixPath, PureWindowsPath

from rlm_jupyter.run.files.blank import is_blank
from rlm_jupyter.run.files.left_out import LeftOut
from rlm_jupyter.run.files.unreadable import Note, Unreadable, first_line, reading

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma", ".lzma": "lzma"}
"""The module for each suffix."""
MOST_UNPACKED = 500 * 1024**2
"""Bytes that an archive may hold, inflated."""

_MB = 1024**2
_INFLATED = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Methods that can be inflated piece by piece: all that office programs and nearly all that others write."""
_ENCRYPTED = 0x1
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLD_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
Read = Callable[[list[str], bytes, Note], object]


def decompressed(data: bytes, suffix: str) -> bytes:
    """Return what is in a compressed file.

    Parameters
    ----------
    suffix
        One of `COMPRESSED`.

    Raises
    ------
    Unreadable
        It is damaged.
    """
    module = COMPRESSED[suffix]
    try:
        plain: bytes = importlib.import_module(module).decompress(data)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise Unreadable(f"damaged, or not compressed by {module}: {first_line(error)}.") from None
    return plain


def unpacked(data: bytes, note: Note, *, read: Read) -> dict[str, object]:
    """Return what the files in a zip archive hold, by their names in it.

    Parameters
    ----------
    note
        Told what was left out, and why: what is hidden, encrypted, a link, an archive itself, or can't be read; of
        several files of one name all but the last.
    read
        Reads a member, as a file of its own.

    Raises
    ------
    Unreadable
        It is malformed or too large, a name in it leads out of it, or no file in it can be read.
    """
    with reading("zip archive"):
        archive = zipfile.ZipFile(io.BytesIO(data))
    contents: dict[str, object] = {}
    left_out = LeftOut()
    with archive:
        copies = Counter(member.filename for member in archive.infolist())
        for name, member in _members(archive).items():
            path = PurePosixPath(name)
            try:
                if any(part.startswith(".") for part in path.parts):
                    raise Unreadable("hidden.")
                if path.suffix.lower() in {".zip", *COMPRESSED}:
                    raise Unreadable("an archive in an archive.")
                if copies[name] > 1:
                    left_out.add(name, "of several files of this name, all but the last.")
                contents[name] = read(path.suffixes, _inflated(archive, member), _naming(name, note))
            except Unreadable as error:
                left_out.add(name, error.brief)
    lines = left_out.lines()
    if all(is_blank(content) for content in contents.values()):
        why = f": {'; '.join(lines)}" if lines else "."
        raise Unreadable(f"no file in this zip archive can be read{why}")
    for line in lines:
        note(line)
    return contents


def _naming(name: str, note: Note) -> Note:
    return lambda text: note(f"{name}: {text}")


def repacked(data: bytes, kind: str) -> io.BytesIO:
    """Return a file of a format that is a zip archive inside, with its members checked and inflated.

    A library that opens it inflates nothing any more.

    Parameters
    ----------
    kind
        Of the file, without an article: `Word document`.

    Raises
    ------
    Unreadable
        It is malformed, encrypted, too large, or of the format before 2007.
    """
    if data.startswith(_OLD_OFFICE):
        if _OLD_ENCRYPTED in data:
            raise Unreadable(f"this {kind} is under a password; save a copy without.")
        raise Unreadable(f"this {kind} is of the format before 2007; save it in the present one.")
    plain = io.BytesIO()
    with reading(kind), zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(plain, "w") as copy:
        for name, member in _members(archive).items():
            copy.writestr(name, _inflated(archive, member))
    plain.seek(0)
    return plain


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the files of an archive, by name, if their sizes and names are harmless."""
    members = {member.filename: member for member in archive.infolist() if not member.is_dir()}
    size = sum(member.file_size for member in archive.infolist())
    if size > MOST_UNPACKED:
        raise Unreadable(
            f"it would unpack to {size / _MB:,.0f} MB, more than {MOST_UNPACKED // _MB} MB; if you trust it, unpack it "
            "yourself."
        )
    for name in members:
        windows = PureWindowsPath(name)  # takes both kinds of slashes
        if ".." in windows.parts or windows.root or windows.drive:
            raise Unreadable(f"a name in it leads out of it ({name!r}): such an archive is not read.")
    return members


def _inflated(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return what a member holds, and inflate no more than it declares."""
    if member.flag_bits & _ENCRYPTED:
        raise Unreadable("encrypted.")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise Unreadable("a link.")
    if member.compress_type not in _INFLATED:
        raise Unreadable("compressed by another method than deflate.")
    with reading("file in a zip archive"), archive.open(member) as file:
        return file.read(member.file_size + 1)
