"""`read`: what a file's bytes hold: text, a table, pages, plain data."""

from __future__ import annotations

import codecs
import io
import json
from collections.abc import Callable
from typing import Any

from rlm_jupyter.parsing.signatures import identify
from rlm_jupyter.types.errors import ConfigurationError

INSTALL = "pip install 'rlm_jupyter[files]'"
"""What brings every library that files may need."""
Note = Callable[[str], None]
"""Told, in one line, what a reader of files should know."""

_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma", ".lzma": "lzma"}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_HEAD = 8_192
"""Bytes that tell text from the rest."""
_SAMPLE = 262_144
"""Bytes that an encoding is guessed from."""
_COMMON = "cp1252"
"""Of the encodings for Latin scripts, by far the most used after UTF-8."""
_KIN = ("cp125", "iso8859")
_OTHERS = frozenset(
    {"Czech", "Slovak", "Polish", "Hungarian", "Romanian", "Croatian", "Slovene", "Turkish", "Lithuanian"}
)
"""Languages with letters that it has not."""
_SLIGHT = 0.1
_SEPARATORS = ",;\t|"
_SCALARS = (str, int, float, bool, type(None))


class Unreadable(ConfigurationError):
    """A file holds nothing that can be read. Its text says why, and leaves naming the file to the caller.

    Parameters
    ----------
    text
        Why, and what to do.
    brief
        The same without the advice, for one file among many.
    """

    def __init__(self, text: str, brief: str = "") -> None:
        super().__init__(text)
        self.brief = brief or text


def read(suffixes: list[str], data: bytes, note: Note) -> object:
    """Return what a file holds.

    Parameters
    ----------
    suffixes
        Of its name, as `pathlib` splits them: `[".csv", ".gz"]`.
    data
        All its bytes, still compressed if the name says so.
    note
        Told where something else comes back than the name promises.

    Returns
    -------
    object
        A pandas frame for csv, tsv, parquet, and for json and jsonl whose rows are flat and have the same
        keys; other json as plain data; pdf as a list of its pages' texts; anything else as text.

    Raises
    ------
    Unreadable
        It is binary, damaged, encrypted, or a library is missing.
    """
    kind = suffixes.pop().lower() if suffixes else ""
    if kind in _COMPRESSED:
        data = _decompressed(data, _COMPRESSED[kind])
        kind = suffixes.pop().lower() if suffixes else ""
    if kind == ".parquet":
        return _parquet(data)
    if kind == ".pdf":
        return _pdf(data)
    if kind in {".csv", ".tsv", ".tab"}:
        return _csv(data, "," if kind == ".csv" else "\t", note)
    text = decode(data, note)
    if kind in {".json", ".jsonl", ".ndjson"}:
        return _json(text, lines=kind != ".json", note=note)
    return text


def decode(data: bytes, note: Note) -> str:
    """Bytes as text, whatever encoding they are in; line ends stay as they are, a byte order mark goes.

    A byte order mark decides; else UTF-8, if it is that but for a few stray bytes (which a note counts);
    else a guess by charset-normalizer.

    Raises
    ------
    Unreadable
        It is no text, or its encoding can't be told.
    """
    return _decoded(data, note)[0]


def _decoded(data: bytes, note: Note) -> tuple[str, str]:
    """Return the text, and the encoding's name."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _strict(data, encoding), encoding
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        _refuse_known(data)
        encoding = _guess(data, error.start)
        if encoding != "utf-8":
            note(f"not UTF-8: read as {encoding.upper()}, which is a guess.")
            return _strict(data, encoding), encoding
        text = str(data, "utf-8", "replace")
        stray = text.count("\ufffd") - data.count("\ufffd".encode())
        note(f"UTF-8 but for {stray:,} stray byte{'' if stray == 1 else 's'}, read as U+FFFD.")
    if "\0" in text[:_HEAD]:
        _refuse_known(data)
        # ASCII in UTF-16 without a mark is valid UTF-8 too
        encoding = _unmarked_utf16(data)
        return _strict(data, encoding), encoding
    return text, "utf-8"


def _refuse_known(data: bytes) -> None:
    """Refuse a binary format that is known; asked of what is no plain UTF-8."""
    if (binary := identify(data)) is not None:
        text = f"binary, not text: {binary.title}"
        raise Unreadable(f"{text}; {binary.advice}.", f"{text}.")


def _strict(data: bytes, encoding: str) -> str:
    try:
        return str(data, encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(f"not {encoding.upper()} throughout (byte {error.start:,}); convert it to UTF-8.") from None


def _guess(data: bytes, first_fault: int) -> str:
    """Return the encoding of what is no faultless UTF-8, from the bytes around the first that show it."""
    if b"\0" in data[:_HEAD]:
        return _unmarked_utf16(data)
    start = max(data.rfind(b"\n", 0, first_fault) + 1, first_fault - _SAMPLE)
    lines = data[start : first_fault + _SAMPLE].split(b"\n")
    # the guess is made from a few places: each must hold something to be told by
    sample = b"\n".join(line for line in lines[:-1] or lines if not line.isascii())
    # other encodings hardly ever hold what is a character of several bytes in UTF-8: a log with a torn line
    text = str(sample, "utf-8", "replace")
    faults = text.count("\ufffd")
    if len(text) - faults - sum(map(str.isascii, text)) > faults:
        return "utf-8"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        raise Unreadable(f"not UTF-8; to tell its encoding: {INSTALL}, or convert it to UTF-8.") from None
    best = from_bytes(sample).best()
    if best is None:
        raise Unreadable("binary, or text in no encoding that can be told; convert it to UTF-8.")
    common = from_bytes(sample, cp_isolation=[_COMMON]).best()
    if common is not None:
        # to tell Latin scripts apart takes more than a few accents: then it is the most common one
        undecided = best.encoding.startswith(_KIN) and best.language not in _OTHERS
        if common.chaos < best.chaos + (_SLIGHT if undecided else 0.0):
            return _COMMON
    return best.encoding


def _unmarked_utf16(data: bytes) -> str:
    head = data[: _HEAD // 2 * 2]
    even, odd = head[::2].count(0), head[1::2].count(0)
    few, many = sorted((even, odd))
    # in Western text nearly every second byte is zero, and always on the same side
    if len(data) % 2 == 0 and many > len(head) // 4 and few <= len(head) // 100:
        return "utf-16-le" if odd == many else "utf-16-be"
    raise Unreadable("binary, not text, and of no format that is known here; convert it to text.", "binary, not text.")


def _decompressed(data: bytes, module: str) -> bytes:
    import importlib
    import lzma
    import zlib

    try:
        plain: bytes = importlib.import_module(module).decompress(data)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise Unreadable(f"damaged, or not compressed by {module}: {error}.") from None
    return plain


def _csv(data: bytes, separator: str, note: Note) -> object:
    text, encoding = _decoded(data, note)
    if not text.strip():
        return text
    try:
        import pandas as pd
    except ImportError:
        note(f"taken as text: a table needs pandas ({INSTALL}).")
        return text
    if separator == ",":
        header = text[:_HEAD].lstrip().partition("\n")[0]
        separator = max(_SEPARATORS, key=header.count)
    try:
        # from the bytes: a StringIO of a large file would take four times its size
        return pd.read_csv(
            io.BytesIO(data), sep=separator, encoding=encoding, encoding_errors="replace", low_memory=False
        )
    except (pd.errors.ParserError, ValueError) as error:
        note(f"taken as text: no regular table ({_first_line(error)}).")
        return text


def _parquet(data: bytes) -> object:
    try:
        import pandas as pd
        import pyarrow
    except ImportError:
        raise Unreadable(f"a parquet file needs pandas and pyarrow: {INSTALL}.") from None
    try:
        return pd.read_parquet(io.BytesIO(data), engine="pyarrow")
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise Unreadable(f"no parquet file that can be read: {_first_line(error)}.") from None


def _pdf(data: bytes) -> list[str]:
    try:
        import pypdf
    except ImportError:
        raise Unreadable(f"a PDF needs pypdf: {INSTALL}.") from None
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):  # empty opens what is only protected against changes
            raise Unreadable("a PDF under a password; save a copy without.")
        pages = [page.extract_text() for page in reader.pages]
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001 — a broken PDF makes it raise whatever there is
        raise Unreadable(f"no PDF that can be read: {_first_line(error)}.") from None
    if not any(page.strip() for page in pages):
        raise Unreadable("a PDF without text, perhaps scanned; run OCR over it first.")
    return pages


def _json(text: str, *, lines: bool, note: Note) -> object:
    try:
        return _table(_json_lines(text) if lines else json.loads(text))
    except (ValueError, RecursionError) as error:
        note(f"taken as text: no JSON ({_first_line(error)}).")
        return text


def _json_lines(text: str) -> list[Any]:
    rows = []
    # not splitlines: a JSON text may hold the other line separators of Unicode
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except ValueError as error:
                raise ValueError(f"line {number:,}: {error}") from None
    return rows


def _table(rows: Any) -> Any:
    """Rows as a frame when they are flat and have the same keys, and pandas is there; else as they are."""
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict) or not rows[0]:
        return rows
    keys = rows[0].keys()
    for row in rows:
        if not isinstance(row, dict) or row.keys() != keys or not all(isinstance(v, _SCALARS) for v in row.values()):
            return rows
    try:
        import pandas as pd
    except ImportError:
        return rows
    columns = {key: [row[key] for row in rows] for key in keys}
    # as objects where something is missing: whole numbers would turn into floats, and large ones into others
    return pd.DataFrame(
        {key: pd.Series(column, dtype=object if None in column else None) for key, column in columns.items()}
    )


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
