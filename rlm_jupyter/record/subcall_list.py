"""Sub-calls as Markdown, folded: who was asked what, what came back, and what that took. Bounded."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from rlm_jupyter.record.escaped import count, escaped, head
from rlm_jupyter.record.subcall_texts import Excerpts, Texts
from rlm_jupyter.record.thumbnails import MOST, thumbnail
from rlm_jupyter.types.events import SubcallSettled
from rlm_jupyter.types.images import Image

SHOWN = 100
"""Sub-calls that are listed, where there is no room for more."""
_OPEN_CHARS = 4_000
"""A longer text has a fold of its own."""


def markdown(settled: Sequence[SubcallSettled], waiting: int, texts: Excerpts) -> str:
    """Render the first sub-calls of a cell as HTML in Markdown."""
    pictures = islice((picture(image) for call in settled for image in call.images), MOST)
    listed = [listed_call(call, texts, list(islice(pictures, len(call.images)))) for call in settled[:SHOWN]]
    return folded(settled, listed, waiting, texts)


def folded(settled: Sequence[SubcallSettled], listed: Sequence[str], waiting: int, texts: Excerpts) -> str:
    """Fold sub-calls below a line that sums them up.

    Parameters
    ----------
    listed
        Those that are listed, as `listed_call` renders them.
    waiting
        How many are in flight.
    texts
        Says where the others are.
    """
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
    shown = "".join(listed)
    if more := len(settled) - len(listed):
        shown += f"<p>{count(more, 'further one')}: {escaped(texts.rest)}.</p>"
    # in one line: a blank line would end the HTML for a Markdown reader
    # a quotation is set off from what is around it by every reader of Markdown, without a style sheet
    return f"<details><summary>{escaped(title)}</summary><blockquote>{shown}</blockquote></details>"


def picture(image: Image, texts: Texts | None = None) -> str:
    """Render an image of a sub-call as HTML: a thumbnail, or what it is in words.

    Parameters
    ----------
    texts
        Has its bytes, where it has them no more.
    """
    shown = thumbnail(image, None if texts is None else texts.objects)
    if not shown:
        return f"<code>{escaped(image.said)}</code>"
    return f'<img src="{shown}" alt="{escaped(image.said)}" title="{escaped(image.said)}">'


def listed_call(call: SubcallSettled, texts: Excerpts, pictures: Sequence[str] = (), steps: str = "") -> str:
    """Render one sub-call, in which whatever a model or a document said is escaped; `pictures` and `steps` are HTML."""
    is_tool = call.kind == "tool"
    said = ["child"] if call.child else []  # its id means nothing to a reader
    said += ["tool"] if is_tool else [call.model] if call.model else []
    said += ["failed"] if call.failed else []
    said += [] if is_tool else [count(call.usage.total_tokens, "token")]
    said += [f"${call.cost:.4f}"] if call.cost else []
    said += [f"{call.seconds:.1f} s"]
    title = head(call.prompt_head) if is_tool else f"{call.kind}_query: {head(call.prompt_head)}"
    asked, given = ("Call", "Result") if is_tool else ("Prompt", "Reply")
    return (
        f"<details><summary>{escaped(title)} · {escaped(' · '.join(said))}</summary>"
        f"<blockquote>{named(asked, texts.asked(call))}{''.join(pictures)}"
        f"{named('Failure' if call.failed else given, texts.given(call))}{steps}</blockquote></details>"
    )


def named(name: str, text: str) -> str:
    """Render a text below its name; a long one folded."""
    shown = f"<pre>{escaped(text)}</pre>"
    if len(text) <= _OPEN_CHARS:
        return f"<p><strong>{name}</strong></p>{shown}"
    return f"<details><summary><strong>{name}</strong>, {count(len(text), 'character')}</summary>{shown}</details>"


def _totals(settled: Sequence[SubcallSettled]) -> list[str]:
    cost = sum(call.cost or 0.0 for call in settled)
    asked = any(call.kind != "tool" for call in settled)
    found = [count(sum(call.usage.total_tokens for call in settled), "token")] if asked else []
    found += [f"${cost:.4f}"] if cost else []
    # they run at once, so their times don't add up
    return [*found, f"the slowest {max(call.seconds for call in settled):.1f} s"]
