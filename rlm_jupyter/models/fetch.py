"""`fetch`: one small JSON page of a server, without any SDK: loading one takes longer than the whole question.

Only what servers say of themselves is read this way; models are asked through their SDKs.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from rlm_jupyter.models.endpoint import on_this_machine

_MOST_BYTES = 16 << 20
T = TypeVar("T")


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
        Of silence, after which it is given up.
    body
        Sent as JSON, by POST; `None`: GET.

    Returns
    -------
    dict
        Empty where the page holds something else.

    Raises
    ------
    FetchError
        Nobody answered, or with an error.
    """
    handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
    if on_this_machine(url):
        handlers.append(urllib.request.ProxyHandler({}))
    data = None if body is None else json.dumps(body).encode()
    sent = {"accept": "application/json", **({} if data is None else {"content-type": "application/json"})}
    if urlsplit(url).scheme not in {"http", "https"}:
        raise FetchError(None, f"{url} is no address of a server")
    request = urllib.request.Request(url, data, {**sent, **(headers or {})})
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=seconds) as response:
            found = json.loads(response.read(_MOST_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            raise FetchError(error.code, _said(error)) from None
    except (OSError, ValueError) as error:
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
            return {}
        raise FetchError(None, str(getattr(error, "reason", error))) from None
    except Exception as error:
        # whatever listens there may speak anything but HTTP
        if type(error).__module__ != "http.client":
            raise
        raise FetchError(None, type(error).__name__) from None
    return found if isinstance(found, dict) else {}


async def aside(call: Callable[[], T]) -> T:
    """Call it in a thread that nobody has to wait for: neither a cancelled run nor the interpreter's end."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()

    def work() -> None:
        try:
            found = call()
        except BaseException as error:  # noqa: BLE001  it is raised where it is awaited
            if not future.cancelled():
                future.set_exception(error)
        else:
            if not future.cancelled():
                future.set_result(found)

    threading.Thread(target=work, name="rlm_jupyter looks at a server", daemon=True).start()
    return await asyncio.wrap_future(future)


def _said(error: urllib.error.HTTPError) -> str:
    try:
        found = json.loads(error.read(_MOST_BYTES))
    except (OSError, ValueError):
        return str(error.reason)
    told = found.get("error", found) if isinstance(found, dict) else found
    return str(told.get("message", told) if isinstance(told, dict) else told)[:300]
