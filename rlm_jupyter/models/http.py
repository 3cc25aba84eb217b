"""`fetch`: one small JSON page of a server, without any SDK: loading one takes longer than the whole question.

Only what servers say of themselves is read this way; models are asked through their SDKs.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import urlsplit

from rlm_jupyter.models.endpoint import on_this_machine
from rlm_jupyter.types.detached import in_thread

_MOST_BYTES = 4 << 20
"""Of a page. Parsed, it takes up to thirty times the memory; the longest list of models has a quarter of this."""
_SAID_CHARS = 300
_PIECE = 1 << 16
THREAD = "rlm_jupyter looks at a server"


class FetchError(Exception):
    """The page could not be had."""

    def __init__(self, status: int | None, said: str) -> None:
        super().__init__(said)
        self.status = status
        """As HTTP has it; `None`: nobody answered."""
        self.said = said
        """What the server, or the system, says of it."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A key is for the address that it was given for."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> None:
        return None


def fetch(url: str, *, seconds: float, headers: Mapping[str, str] | None = None, body: Any = None) -> dict[str, Any]:
    """Read a page of JSON.

    Parameters
    ----------
    seconds
        In which the whole page has to be there; then it is given up, whatever still comes.
    body
        Sent as JSON, by POST; `None`: GET.

    Returns
    -------
    dict
        Empty where the page holds something else, or is too long.

    Raises
    ------
    FetchError
        Nobody answered, or with an error.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise FetchError(None, f"{url} is no address of a server")
    data = None if body is None else json.dumps(body).encode()
    sent = {"accept": "application/json", **({} if data is None else {"content-type": "application/json"})}
    request = urllib.request.Request(url, data, {**sent, **(headers or {})})
    # a thread, since a timeout of a socket begins anew with every byte
    page = in_thread(lambda: _page(request, seconds), THREAD)
    try:
        return page.result(seconds)
    except TimeoutError:
        raise FetchError(None, "timed out") from None


def _page(request: urllib.request.Request, seconds: float) -> dict[str, Any]:
    until = time.monotonic() + seconds
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if on_this_machine(request.full_url):
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=seconds) as response:
            found = _parsed(_read(response, until))
    except urllib.error.HTTPError as error:
        with error:
            raise FetchError(error.code, _said(error, until)) from None
    except (OSError, ValueError) as error:
        raise FetchError(None, _line(getattr(error, "reason", error))) from None
    except Exception as error:
        # whatever listens there may speak anything but HTTP
        if type(error).__module__ != "http.client":
            raise
        raise FetchError(None, type(error).__name__) from None
    return found if isinstance(found, dict) else {}


def _read(response: Any, until: float) -> bytes:
    """Read what comes in time, up to `_MOST_BYTES`."""
    page = bytearray()
    while len(page) < _MOST_BYTES and (piece := response.read1(_PIECE)):
        page += piece
        if time.monotonic() > until:
            raise TimeoutError("timed out")
    return bytes(page)


def _parsed(page: bytes) -> Any:
    """Return the JSON, `None` where it is none that can be read."""
    try:
        return json.loads(page)
    except (ValueError, RecursionError):
        return None


def _said(error: urllib.error.HTTPError, until: float) -> str:
    try:
        found = _parsed(_read(error, until))
    except (OSError, http.client.HTTPException):
        found = None
    told = found.get("error", found) if isinstance(found, dict) else found
    told = told.get("message") if isinstance(told, dict) else told
    return _line(told if isinstance(told, str) and told else error.reason)


def _line(said: object) -> str:
    return " ".join(str(said)[: 10 * _SAID_CHARS].split())[:_SAID_CHARS]
