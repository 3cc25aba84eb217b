"""Sub-calls as Markdown, folded: who was asked what, what came back, and what that took. Bounded."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.dollars import ALONE
from rlm_jupyter.record.thumbnails import MOST, thumbnail
from rlm_jupyter.types.events import SubcallSettled

SHOWN = 100
"""Sub-calls that are listed."""
_TEXT_CHARS = 1_500
_TITLE_CHARS = 80


def markdown(
    settled: Sequence[SubcallSettled],
    waiting: int = 0,
    *,
    whole: str,
    objects: Objects | None = None,
    steps: Mapping[int, str] | None = None,
) -> str:
    """Render sub-calls as HTML in Markdown, in which whatever a model or a document said is escaped.

    Parameters
    ----------
    waiting
        How many are in flight.
    whole
        Where all of them are, whole.
    objects
        Where their images are, if they have them no more.
    steps
        What the children did that answered them, as HTML in one line, by the sub-calls' ordinals.
    """
    below = steps or {}
    failed = sum(call.failed for call in settled)
    tools = sum(call.kind == "tool" for call in settled)
    asked = len(settled) - tools
    title = ", ".join(
        ([count(asked, "sub-call")] if asked or not (tools or waiting) else [])
        + ([count(tools, "tool call")] if tools else [])
        + ([f"{waiting} in flight" if settled else f"{count(waiting, 'sub-call')} in flight"] if waiting else [])
        + ([f"{failed} failed"] if failed else [])
        + (_totals(settled) if settled else [])
    )
    pictures = islice(_pictures(settled, objects), MOST)
    listed = "".join(
        listed_call(call, list(islice(pictures, len(call.images))), below.get(call.ordinal, ""))
        for call in settled[:SHOWN]
    )
    if len(settled) > SHOWN:
        listed += f"<p>{count(len(settled) - SHOWN, 'further one')}: {whole}.</p>"
    # in one line: a blank line would end the HTML for a Markdown reader
    # a quotation is set off from what is around it by every reader of Markdown, without a style sheet
    return f"<details><summary>{escaped(title)}</summary><blockquote>{listed}</blockquote></details>"


def head(text: str, limit: int = _TITLE_CHARS) -> str:
    """Return the beginning of a text, in one line."""
    line = _plain(" ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _pictures(settled: Sequence[SubcallSettled], objects: Objects | None) -> Iterator[str]:
    """Yield the images of sub-calls, in order, each as HTML of its own: a thumbnail, or what it is in words."""
    for call in settled:
        for image in call.images:
            shown = thumbnail(image, objects)
            yield (
                f'<img src="{shown}" alt="{escaped(image.said)}" title="{escaped(image.said)}">'
                if shown
                else f"<code>{escaped(image.said)}</code>"
            )


def listed_call(call: SubcallSettled, pictures: Sequence[str] = (), steps: str = "") -> str:
    """Render one sub-call; `pictures` and `steps` are HTML."""
    is_tool = call.kind == "tool"
    said = ["child"] if call.child else []  # its id means nothing to a reader
    said += ["tool"] if is_tool else [call.model] if call.model else []
    said += ["failed"] if call.failed else []
    said += [] if is_tool else [count(call.usage.total_tokens, "token")]
    said += [f"${call.cost:.4f}"] if call.cost else []
    said += [f"{call.seconds:.1f} s"]
    title = head(call.prompt_head) if is_tool else f"{call.kind}_query: {head(call.prompt_head)}"
    more = call.prompt_chars - len(call.prompt_head)
    prompt = call.prompt_head + (f" … ({more:,} more characters)" if more > 0 else "")
    asked, given = ("Call", "Result") if is_tool else ("Prompt", "Reply")
    return (
        f"<details><summary>{escaped(title)} · {escaped(' · '.join(said))}</summary>"
        f"<blockquote>{named(asked, prompt)}{''.join(pictures)}"
        f"{named('Failure' if call.failed else given, _cut(call.text))}{steps}</blockquote></details>"
    )


def named(name: str, text: str) -> str:
    """Render a text below its name."""
    return f"<p><strong>{name}</strong></p><pre>{escaped(text)}</pre>"


def _totals(settled: Sequence[SubcallSettled]) -> list[str]:
    cost = sum(call.cost or 0.0 for call in settled)
    asked = any(call.kind != "tool" for call in settled)
    found = [count(sum(call.usage.total_tokens for call in settled), "token")] if asked else []
    found += [f"${cost:.4f}"] if cost else []
    # they run at once, so their times don't add up
    return [*found, f"the slowest {max(call.seconds for call in settled):.1f} s"]


def _cut(text: str) -> str:
    if len(text) <= _TEXT_CHARS:
        return text
    return f"{text[:_TEXT_CHARS]} … ({len(text) - _TEXT_CHARS:,} more characters, in the run's record)"


def escaped(text: str) -> str:
    """Return for HTML inside Markdown: nothing in it is a tag, a blank line, emphasis, a picture or a formula."""
    shown = html.escape(_plain(text)).replace("\r", "").replace("\n", "&#10;")
    for sign in "*_`[]!\\~":
        shown = shown.replace(sign, f"&#{ord(sign)};")
    return shown.replace("$", ALONE)


def _plain(text: str) -> str:
    """Return text that can be written to a file: a lone surrogate has no encoding."""
    return text.encode("utf-8", "replace").decode("utf-8")


def count(number: int, unit: str) -> str:
    """Say how many there are of something."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
