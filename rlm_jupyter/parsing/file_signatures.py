"""`identify`: which binary format bytes are in, by their signature, and how to read it."""

from __future__ import annotations

import io
from dataclasses import dataclass

_HEAD = 8_192
_MOST_NAMES = 1_000


@dataclass(frozen=True, slots=True)
class Binary:
    """A binary format."""

    title: str
    """With its article: `a PNG image`."""
    advice: str
    """What the user does with such a file to make a context of it, as an imperative."""
    code: str = ""
    """Python that reads it from the bytes in `context`, where a library does."""


_IMAGE = "open it with PIL.Image.open(…) and pass that, or pass its text, as OCR gives it"
_SOUND = "pass its text, as a transcription gives it"
_PROGRAM = "pass its source"


def _reads(module: str, call: str, argument: str = "") -> str:
    return f"import io, {module}; {module}.{call}({argument}io.BytesIO(context))"


def _unpacks(module: str) -> str:
    return f"import {module}; {module}.decompress(context)"


def _image(name: str) -> Binary:
    return Binary(
        f"{'an' if name[0] in 'AI' else 'a'} {name} image",
        _IMAGE,
        _reads("PIL.Image", "open"),
    )


_ZIP = Binary("a zip archive", "name it with the suffix .zip", _reads("zipfile", "ZipFile"))
_WORD = Binary(
    "a Word document",
    "name it with the suffix .docx",
    _reads("docx", "Document"),
)
_EXCEL = Binary(
    "an Excel workbook",
    "name it with the suffix .xlsx, or pass pandas.read_excel(…)",
    _reads("pandas", "read_excel"),
)
_SLIDES = Binary(
    "a PowerPoint presentation",
    "name it with the suffix .pptx",
    _reads("pptx", "Presentation"),
)
_BOOK = Binary("an EPUB book", "convert it to text, or read it with ebooklib: ebooklib.epub.read_epub(…)", _ZIP.code)
_OPEN = Binary("an OpenDocument file", "save it as text, csv or PDF, or read it with odfpy", _ZIP.code)
_ARRAYS = Binary("a file of numpy arrays", "pass an array of numpy.load(…)", _reads("numpy", "load"))
_OFFICE = Binary("an old Office document", "save it in the present format (docx, xlsx, pptx), or as PDF")
_PDF = Binary(
    "a PDF", "name it with the suffix .pdf, or read it with pypdf: pypdf.PdfReader(…).pages",
    _reads("pypdf", "PdfReader"),
)  # fmt: skip

_IN_ZIP = {
    "word/": _WORD,
    "xl/": _EXCEL,
    "ppt/": _SLIDES,
    "META-INF/container.xml": _BOOK,
    "META-INF/manifest.xml": _OPEN,
}
"""By the beginning of a name in the archive."""
_SIGNATURES: tuple[tuple[int, bytes, Binary], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", _image("PNG")),
    (0, b"\xff\xd8\xff", _image("JPEG")),
    (0, b"GIF87a", _image("GIF")),
    (0, b"GIF89a", _image("GIF")),
    (0, b"II*\0", _image("TIFF")),
    (0, b"MM\0*", _image("TIFF")),
    (8, b"WEBP", _image("WebP")),
    (4, b"ftypavif", _image("AVIF")),
    (4, b"ftyphei", _image("HEIC")),
    (0, b"\0\0\1\0", _image("icon")),
    (0, b"%PDF-", _PDF),
    (
        0,
        b"SQLite format 3\0",
        Binary(
            "a SQLite database",
            "pass a table of it: pandas.read_sql('select * from …', sqlite3.connect(…))",
            "import sqlite3; db = sqlite3.connect(':memory:'); db.deserialize(context)",
        ),
    ),
    (8, b"DUCK", Binary("a DuckDB database", "pass a table of it: duckdb.connect(…).table('…').df()")),
    (
        0,
        b"\x1f\x8b",
        Binary("compressed by gzip", "name it with the suffix .gz", _unpacks("gzip")),
    ),
    (0, b"BZh", Binary("compressed by bzip2", "name it with the suffix .bz2", _unpacks("bz2"))),
    (
        0,
        b"\xfd7zXZ\0",
        Binary("compressed by xz", "name it with the suffix .xz", _unpacks("lzma")),
    ),
    (0, b"\x28\xb5\x2f\xfd", Binary("compressed by zstd", "decompress it: zstd -d …")),
    (0, b"7z\xbc\xaf\x27\x1c", Binary("a 7z archive", "unpack it (7z x …) and name the folder")),
    (0, b"Rar!\x1a\x07", Binary("a RAR archive", "unpack it (unrar x …) and name the folder")),
    (
        257,
        b"ustar",
        Binary(
            "a tar archive",
            "unpack it (tar -xf …) and name the folder",
            _reads("tarfile", "open", "fileobj="),
        ),
    ),
    (
        0,
        b"PAR1",
        Binary(
            "a Parquet file",
            "name it with the suffix .parquet, or pass pandas.read_parquet(…)",
            _reads("pandas", "read_parquet"),
        ),
    ),
    (
        0,
        b"ARROW1",
        Binary(
            "an Arrow file",
            "pass pandas.read_feather(…)",
            _reads("pandas", "read_feather"),
        ),
    ),
    (
        0,
        b"ORC",
        Binary("an ORC file", "pass pandas.read_orc(…)", _reads("pandas", "read_orc")),
    ),
    (
        0,
        b"\x89HDF\r\n\x1a\n",
        Binary(
            "an HDF5 file",
            "pass a table or an array of it, read by h5py",
            _reads("h5py", "File"),
        ),
    ),
    (
        0,
        b"\x93NUMPY",
        Binary("a numpy array", "pass numpy.load(…)", _reads("numpy", "load")),
    ),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", _OFFICE),
    (8, b"WAVE", Binary("a WAV recording", _SOUND)),
    (0, b"fLaC", Binary("a FLAC recording", _SOUND)),
    (0, b"OggS", Binary("an Ogg recording", _SOUND)),
    (0, b"ID3", Binary("an MP3 recording", _SOUND)),
    (4, b"ftyp", Binary("an MP4 recording", _SOUND)),
    (0, b"\x1aE\xdf\xa3", Binary("a Matroska recording", _SOUND)),
    (0, b"\x7fELF", Binary("a program", _PROGRAM)),
    (0, b"MZ", Binary("a program", _PROGRAM)),
    (0, b"\xcf\xfa\xed\xfe", Binary("a program", _PROGRAM)),
    (0, b"\0asm", Binary("a program", _PROGRAM)),
)


def identify(data: bytes | bytearray | memoryview) -> Binary | None:
    """Tell a binary format by its signature.

    Parameters
    ----------
    data
        What is no plain text already: many signatures are words that a text may begin with. So those of ASCII letters
        count only where a zero byte follows soon.

    Returns
    -------
    Binary or None
        `None`: none that is known.
    """
    head = bytes(data[:_HEAD])
    if head.startswith(b"PK\x03\x04"):
        return _in_zip(data)
    for offset, signature, binary in _SIGNATURES:
        if head.startswith(signature, offset) and (not signature.isalnum() or b"\0" in head):
            return binary
    return None


def _in_zip(data: bytes | bytearray | memoryview) -> Binary:
    """Tell the formats apart that are zip archives inside."""
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()[:_MOST_NAMES]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return _ZIP
    if names and all(name.endswith(".npy") for name in names):
        return _ARRAYS
    found = (binary for begins, binary in _IN_ZIP.items() if any(name.startswith(begins) for name in names))
    return next(found, _ZIP)
