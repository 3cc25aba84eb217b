"""What an SDK raised, made into this package's errors: one line each, saying what to do, without any key.

Both SDKs describe a refusal alike (`status_code`, `body`), so nothing of them is imported here.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from rlm_jupyter.models.endpoint import with_advice
from rlm_jupyter.models.incapable import incapable
from rlm_jupyter.models.overflow import overflow
from rlm_jupyter.models.reply_fields import MalformedReply
from rlm_jupyter.types.errors import ModelError, ModelUnavailableError

if TYPE_CHECKING:
    from rlm_jupyter.models.endpoint import Endpoint
    from rlm_jupyter.models.providers import Preset

_DETAIL_CHARS = 300
_READ_CHARS = 20_000
"""Of what a server says of a failure."""
_LONGEST_WAIT = 366 * 86_400.0
"""Seconds. A server may name any time; it is shown, and added to a clock."""
_RETRIES = 4
_UNREADABLE_RETRIES = 2
_LOCAL_RETRIES = 2
"""One's own server is up or it isn't: nobody should wait ten seconds to hear that."""
_OVERLOADED = {429, 503, 529}
_OVERLOADED_TYPES = {"rate_limit_error", "overloaded_error", "rate_limit_exceeded"}
_NO_CREDIT = {"insufficient_quota", "billing_error", "billing_hard_limit_reached"}
"""Also sent as 429, though no waiting helps."""
_CROWDED = "context size has been exceeded"
"""llama.cpp's slots may share one memory: requests that fit alone then don't fit together."""
_REDIRECTS = range(300, 400)
_STREAMED_STATUS = {
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
}
"""An error inside a stream has no status of its own, only a type."""


def transport_errors() -> tuple[type[Exception], ...]:
    """Return what the HTTP library under the SDKs raises when a connection fails: whichever of the two is loaded."""
    libraries = (sys.modules.get(name) for name in ("httpx", "httpx2"))
    return tuple(library.RequestError for library in libraries if library is not None)


class ToldWhole(Exception):
    """What a server says of a failure in place of a stream; `body` is as in an SDK's error."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__(str(body.get("message") or ""))
        self.body = body


def told_whole(sent: bytes) -> ToldWhole | None:
    """Return the failure that was sent as one object, with the status of a success; `None`: it is something else.

    An SDK looks for events there, finds none, and says nothing.
    """
    try:
        body = json.loads(sent)
    except (ValueError, RecursionError):
        return None
    said = body.get("error") if isinstance(body, dict) else None
    if isinstance(said, str):
        said = {"message": said}
    return ToldWhole(said) if isinstance(said, dict) and said.get("message") else None


def model_error(error: Exception, endpoint: Endpoint, *, has_images: bool = False) -> ModelError:
    """Return the error of ours that stands for `error`, which an SDK raised while `endpoint` was asked.

    Parameters
    ----------
    has_images
        It was sent images, and may refuse them.
    """
    body = _body(error)
    status = getattr(error, "status_code", None)
    if status is None or status < _REDIRECTS.start:
        code = body.get("code")
        status = code if isinstance(code, int) else _STREAMED_STATUS.get(str(body.get("type")))
    detail = _detail(error, body, endpoint)
    if status in _REDIRECTS:
        detail = shortened(str(_headers(error).get("location") or ""), endpoint)
    if status is None and not body:
        return _no_connection(error, endpoint)
    if (too_long := overflow(status, detail, body, endpoint)) is not None:
        return too_long
    kinds = {str(body.get("type")), str(body.get("code"))}
    if kinds & _NO_CREDIT:
        return ModelError(f"{endpoint.name}: {endpoint.preset.title} says that nothing is left to spend. {detail}")
    if (unable := incapable(status, detail, endpoint, has_images=has_images)) is not None:
        return unable
    overloaded = status in _OVERLOADED or bool(kinds & _OVERLOADED_TYPES) or _CROWDED in detail.lower()
    if overloaded or (status is not None and (status >= 500 or status in {408, 409})):
        said = "refuses more for now" if overloaded else "failed"
        return ModelUnavailableError(
            f"{endpoint.name}: {endpoint.preset.title} {said}{f' ({status})' if status else ''}. {detail}",
            overloaded=overloaded,
            retry_after=_retry_after(error),
            retries=_retries(endpoint),
            brief=f"it {said}",
        )
    return _refusal(status, detail, endpoint)


_SECRET_CHARS = 8
_SHORT_SECRET = r"(?i:(?<=bearer )|(?<=[\"'`:=])|(?<=[:=] )){}(?![\w-])"
"""Where a shorter key is taken out: as a whole value, in quotes or behind a colon, `=` or `Bearer`.

No provider issues one so short: it is the dummy that a server of one's own takes ("k", "none", "EMPTY"), or a password
that somebody chose. As a dummy it is no secret, and as a piece of text it stands in half of all words; as a password it
is echoed, if at all, where a server quotes what it was sent.
"""


class NotServedError(ModelError):
    """The server knows no such model, or no such address."""


def broken_off(endpoint: Endpoint, *, after_text: bool) -> ModelUnavailableError:
    """Make the error for a reply whose stream ended before its end."""
    if after_text:
        return ModelUnavailableError(
            f"{endpoint.name}: {endpoint.shown_url} broke off in the middle of its reply.",
            retries=1,
            brief="the connection broke",
        )
    return ModelUnavailableError(
        f"{endpoint.name}: {endpoint.shown_url} broke off before its reply began. Is that the whole address?",
        retries=1,
        brief="the connection broke",
    )


def malformed(error: Exception, endpoint: Endpoint) -> ModelUnavailableError:
    """Describe a reply that can't be read: it breaks the protocol, or the SDK fails on it."""
    said = str(error) if isinstance(error, MalformedReply) else f"{type(error).__name__}: {_said(error)}"
    return ModelUnavailableError(
        f"{endpoint.name}: {endpoint.shown_url} sent what can't be read as a reply ({shortened(said, endpoint)}).",
        retries=_UNREADABLE_RETRIES,
        brief="its reply can't be read",
    )


def not_sent(error: Exception, endpoint: Endpoint) -> ModelError:
    """Describe a request that the SDK could not make."""
    said = shortened(f"{type(error).__name__}: {_said(error)}", endpoint)
    return ModelError(f"{endpoint.name}: no request to {endpoint.shown_url} could be made ({said}).")


def too_large(endpoint: Endpoint, problem: str) -> ModelUnavailableError:
    """Describe a reply that was cut off for its size."""
    return ModelUnavailableError(
        f"{endpoint.name}: {endpoint.shown_url} {problem}; the request was closed.",
        retries=_UNREADABLE_RETRIES,
        brief="its reply was too large",
    )


def silent(endpoint: Endpoint, seconds: float) -> ModelUnavailableError:
    """Return the error that nothing came for too long."""
    return ModelUnavailableError(
        f"{endpoint.name}: nothing came from {endpoint.shown_url} for {seconds:g} s (request_idle_seconds). "
        "Is it overloaded?"
    )


def not_there(endpoint: Endpoint, said: str = "") -> ModelUnavailableError:
    """Return the error that nobody answers at an address of one's own."""
    why = f" ({said})" if said else ""
    return ModelUnavailableError(
        f"{endpoint.name}: no connection to {endpoint.shown_url}{why}. {how_to_start(endpoint.preset)}",
        retries=_LOCAL_RETRIES,
        brief="no connection",
    )


def still_loading(endpoint: Endpoint) -> ModelUnavailableError:
    """Make the error for a server that was not ready when the time was up."""
    return ModelUnavailableError(
        f"{endpoint.name}: {endpoint.shown_url} had not loaded its model when the time was up. "
        "Give it longer (max_seconds), or load the model before."
    )


def how_to_start(preset: Preset) -> str:
    """Return what to do where a server of one's own does not answer."""
    return f"Start it ({preset.start}), or say where it is: base_url (--base-url), or {preset.url_variables[-1]}."


def _refusal(status: int | None, detail: str, endpoint: Endpoint) -> ModelError:
    name, title = endpoint.name, endpoint.preset.title
    if status in _REDIRECTS:
        return ModelError(
            f"{name}: {endpoint.shown_url} redirects ({status}) to {detail or 'nowhere'}. If you trust that address, "
            "pass it as base_url: a key is not sent on."
        )
    if status in {401, 403}:
        if endpoint.key is None:
            text, elsewhere = with_advice(
                f"{name}: {endpoint.shown_url} wants a key ({status}). ", endpoint.preset, "."
            )
            refusal = ModelError(text, **elsewhere)
        else:
            source = endpoint.key_variable or "the api_key that was passed"
            refusal = ModelError(f"{name}: {title} refused the key ({status}). Check {source}. {detail}")
        refusal.refuses_key = status == 401  # 403 may be about this one request: what is in it, or the model
        return refusal
    if status == 404:
        return NotServedError(f"{name}: {endpoint.shown_url} knows no such model or address (404). {detail}")
    return ModelError(f"{name}: {endpoint.shown_url} refused the request{f' ({status})' if status else ''}. {detail}")


def _no_connection(error: Exception, endpoint: Endpoint) -> ModelUnavailableError:
    advice = how_to_start(endpoint.preset) if endpoint.preset.local else "Check the network and the address."
    retries = _retries(endpoint)
    if "Timeout" in type(error).__name__:
        return ModelUnavailableError(
            f"{endpoint.name}: no answer from {endpoint.shown_url} in time. {advice}",
            retries=retries,
            brief="no connection in time",
        )
    return ModelUnavailableError(
        f"{endpoint.name}: no connection to {endpoint.shown_url}. {advice}",
        retries=retries,
        brief="the connection broke",
    )


def _retries(endpoint: Endpoint) -> int:
    return _LOCAL_RETRIES if endpoint.preset.local else _RETRIES


def _retry_after(error: Exception) -> float | None:
    """Return in how many seconds the server wants to be asked again, of milliseconds, seconds or a date."""
    headers = _headers(error)
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = str(headers.get(name) or "")
        with contextlib.suppress(ValueError):
            seconds = float(value) * unit
            return min(max(seconds, 0.0), _LONGEST_WAIT) if math.isfinite(seconds) else None
        with contextlib.suppress(ValueError, OverflowError):
            return min(max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0), _LONGEST_WAIT)
    return None


def _headers(error: Exception) -> Mapping[str, str]:
    return getattr(getattr(error, "response", None), "headers", None) or {}


def _body(error: Exception) -> Mapping[str, Any]:
    body = getattr(error, "body", None)
    if isinstance(body, Mapping) and isinstance(body.get("error"), Mapping):
        body = body["error"]
    return body if isinstance(body, Mapping) else {}


def _detail(error: Exception, body: Mapping[str, Any], endpoint: Endpoint) -> str:
    return shortened(str(body.get("message") or getattr(error, "message", "") or error), endpoint)


def _said(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  it may show what made it fail
        return ""


def shortened(text: str, endpoint: Endpoint) -> str:
    """Return one line without keys, of bounded length."""
    text = text[:_READ_CHARS]
    for secret in (endpoint.key, *endpoint.headers.values()):
        if secret and len(secret) >= _SECRET_CHARS:
            text = text.replace(secret, "…")
        elif secret:
            text = re.sub(_SHORT_SECRET.format(re.escape(secret)), "…", text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= _DETAIL_CHARS else text[:_DETAIL_CHARS] + "…"
