"""`PdfPages`: a PDF whose pages are images, each rendered when somebody asks for it."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.images import LONGEST_SIDE
from rlm_jupyter.types.quoted import quoted

_RENDERING = threading.Lock()
"""PDFium serves one thread at a time."""


def import_pypdf() -> Any:
    """Import pypdf, which then says what it finds amiss in a file to those who log, and to nobody else.

    Raises
    ------
    ImportError
        It is missing.
    """
    import pypdf

    log = logging.getLogger("pypdf")
    if not log.handlers:  # else Python itself prints its warnings
        log.addHandler(logging.NullHandler())
    return pypdf


class PdfPages(Sequence[Any]):
    """The pages of a PDF as images (`PIL.Image.Image`).

    It holds the file's bytes, and travels to a kernel as these. Where it is made, pypdf counts the pages; they are
    rendered by pypdfium2 (the extra `images`) only where one is asked for: in the kernel.

    Parameters
    ----------
    source
        The file's path, or its bytes.
    longest
        Pixels of a page's longer side.

    Raises
    ------
    ConfigurationError
        There is no such file, it is no PDF that can be read, or under a password; or pypdf is missing.

    Examples
    --------
    >>> RLM("openai/gpt-5-mini").completion("Who signed?", PdfPages("scan.pdf"))  # doctest: +SKIP
    """

    def __init__(self, source: str | Path | bytes, longest: int = LONGEST_SIDE) -> None:
        self.data, name = _read(source)
        self.longest = longest
        try:
            reader = import_pypdf().PdfReader(io.BytesIO(self.data))
            is_locked = reader.is_encrypted and not reader.decrypt("")
            self._count = 0 if is_locked else len(reader.pages)
            box = reader.pages[0].cropbox if self._count else None
            self._points = (0.0, 0.0) if box is None else (float(box.width), float(box.height))
        except ImportError:
            raise ConfigurationError("PdfPages needs pypdf: pip install 'rlm_jupyter[images]'.") from None
        except Exception as error:  # noqa: BLE001  of a malformed file libraries raise whatever there is
            raise ConfigurationError(f"{name}: no PDF that can be read ({type(error).__name__}).") from None
        if is_locked:
            raise ConfigurationError(f"{name}: a PDF under a password; save a copy without.")
        if not self._count:
            raise ConfigurationError(f"{name}: a PDF that has no pages.")

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<PdfPages: {self._count:,} page{'' if self._count == 1 else 's'}>"

    @overload
    def __getitem__(self, index: int) -> Any: ...

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...

    def __getitem__(self, index: int | slice) -> Any:
        """Render a page, or a list of them; the first is 0.

        Raises
        ------
        IndexError
            There is no such page.
        ImportError
            pypdfium2 or Pillow is missing.
        """
        try:
            indices = range(self._count)[index]
        except IndexError:
            there = "the only one is [0]" if self._count == 1 else f"they are [0] to [{self._count - 1}]"
            count = f"{self._count:,} page{'' if self._count == 1 else 's'}"
            raise IndexError(f"There is no page [{index}]: this PDF has {count}, {there}.") from None
        if isinstance(indices, range):
            return [self._render(one) for one in indices]
        return self._render(indices)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the first page, in pixels, as it is rendered; (0, 0): the file does not say."""
        longer = max(self._points)
        if longer <= 0:
            return 0, 0
        return self._scaled(self._points)

    def _scaled(self, points: Sequence[float]) -> tuple[int, int]:
        scale = self.longest / max(*points, 1)
        width, height = (max(round(side * scale), 1) for side in points)
        return width, height

    def _render(self, index: int) -> Any:
        try:
            import pypdfium2
        except ImportError:
            raise ImportError("Pages of a PDF are rendered by pypdfium2: pip install 'rlm_jupyter[images]'.") from None
        with _RENDERING:
            document = pypdfium2.PdfDocument(self.data)
            try:
                page = document[index]
                points = page.get_size()
                picture = page.render(scale=self.longest / max(*points, 1)).to_pil()
                # pdfium rounds up, also what is a whole number but for the last binary digit
                return picture.crop((0, 0, *self._scaled(points)))
            finally:
                document.close()


def _read(source: object) -> tuple[bytes, str]:
    """Return the bytes of a PDF, and what it is called."""
    if isinstance(source, bytes):
        return source, "PdfPages"
    if not isinstance(source, str | Path):
        raise ConfigurationError(f"PdfPages takes the path of a PDF, or its bytes, not {quoted(source)}.")
    if not str(source):  # which would be the working directory
        raise ConfigurationError("PdfPages takes the path of a PDF, not an empty text.")
    try:
        return Path(source).expanduser().read_bytes(), str(source)
    except FileNotFoundError:
        raise ConfigurationError(f"{source}: there is no such file.") from None
    except (OSError, ValueError, RuntimeError) as error:  # a null byte; a home of nobody's
        raise ConfigurationError(f"{source} can't be read: {getattr(error, 'strerror', None) or error}.") from None
