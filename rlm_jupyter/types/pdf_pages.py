"""`PdfPages`: a PDF whose pages are images, each rendered when somebody asks for it."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from rlm_jupyter.types.images import LONGEST_SIDE

_RENDERING = threading.Lock()
"""PDFium serves one thread at a time."""


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
    ValueError
        It is no PDF that can be read, or under a password.
    ImportError
        pypdf is missing.

    Examples
    --------
    >>> RLM("openai/gpt-5-mini").completion("Who signed?", PdfPages("scan.pdf"))  # doctest: +SKIP
    """

    def __init__(self, source: str | Path | bytes, longest: int = LONGEST_SIDE) -> None:
        import pypdf

        self.data = source if isinstance(source, bytes) else Path(source).expanduser().read_bytes()
        self.longest = longest
        try:
            reader = pypdf.PdfReader(io.BytesIO(self.data))
            if reader.is_encrypted and not reader.decrypt(""):
                raise ValueError("it is under a password; save a copy without")
            self._count = len(reader.pages)
            box = reader.pages[0].cropbox if self._count else None
            self._points = (0.0, 0.0) if box is None else (float(box.width), float(box.height))
        except ValueError:
            raise
        except Exception as error:  # noqa: BLE001  of a malformed file libraries raise whatever there is
            raise ValueError(f"it is no PDF that can be read ({type(error).__name__})") from None
        if not self._count:
            raise ValueError("it has no pages")

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"<PdfPages: {self._count:,} page{'' if self._count == 1 else 's'}>"

    @overload
    def __getitem__(self, place: int) -> Any: ...

    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...

    def __getitem__(self, place: int | slice) -> Any:
        """Render a page, or a list of them; the first is 0.

        Raises
        ------
        IndexError
            There is no such page.
        ImportError
            pypdfium2 or Pillow is missing.
        """
        places = range(self._count)[place]
        if isinstance(places, range):
            return [self._render(one) for one in places]
        return self._render(places)

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the first page, in pixels, as it is rendered; (0, 0): the file does not say."""
        longer = max(self._points)
        if longer <= 0:
            return 0, 0
        width, height = (max(round(side * self.longest / longer), 1) for side in self._points)
        return width, height

    def _render(self, place: int) -> Any:
        try:
            import pypdfium2
        except ImportError:
            raise ImportError("Pages of a PDF are rendered by pypdfium2: pip install 'rlm_jupyter[images]'.") from None
        with _RENDERING:
            document = pypdfium2.PdfDocument(self.data)
            try:
                page = document[place]
                longer = max(page.get_size())
                return page.render(scale=self.longest / max(longer, 1)).to_pil().copy()
            finally:
                document.close()
