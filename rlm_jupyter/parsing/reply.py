"""A model's reply as prose and blocks, read up to where the model starts to play the kernel."""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from rlm_jupyter.parsing import fences
from rlm_jupyter.parsing import final as finals
from rlm_jupyter.parsing import source as sources
from rlm_jupyter.parsing.fences import CODE_TAGS, Fence
from rlm_jupyter.parsing.final import Declaration

_WORDS = r"(?:the|actual|expected|sample|simulated|repl|cell|code|kernel|execution|console|program|python|script)"
_OUTPUT_LABEL = re.compile(
    r"^[^\S\n]*(?:\#{1,6}[ \t]+|>[ \t]?)?[*_]{0,3}(?:"
    r"Out\[\d*\]:"
    rf"|\[(?:{_WORDS}[ \t]+)*(?:outputs?|results?|stdout|observation)\]"
    rf"|(?:{_WORDS}[ \t]+){{0,3}}(?:outputs?|stdout|observation|execution[ \t]+results?)"
    r"(?: (?:of|from|for) [^:\n]{1,60}| ?[(\#]?(?:(?:block|cell) )?\d{1,3}\)?)?[*_]{0,3}(?::|[ \t]*\r?$)"
    r"|results?[*_]{0,3}:[*_]{0,3}[ \t]*(?:\r?$|[-\d\"'\[{(`])"
    r")",
    re.MULTILINE | re.IGNORECASE,
)
"""A line that can only be the heading of an output: `**Output:**`, `REPL output: 42`, `Out[3]:`."""
_OUTPUT_TAGS = {"output", "outputs", "out", "stdout", "result", "results", "repl-output"}
_PLAIN_TAGS = {"", "text", "txt", "plaintext", "plain", "console", "none"} | _OUTPUT_TAGS
_LEADS_TO_OUTPUT = re.compile(
    r"\b(?:outputs?|results?|prints?|printed|returns?|returned|gives|shows?|displays?|produces?|yields?)\b",
    re.IGNORECASE,
)
"""A line with such a word that ends with a colon announces an output, when a plain fence follows at once."""
_TRACEBACK = re.compile(r"\s*(?:Traceback \(most recent call last\)|\w+(?:Error|Exception) +Traceback )")
_ANSWER_LABEL = re.compile(r"[\s#>*_]*(?:(?:the|my)[ \t]+)?final[ \t]+answer\b", re.IGNORECASE)
"""A line that begins so presents an answer, when a plain fence follows at once."""
_LOOKS = 50
"""How often a reply that is arriving is looked at whenever it might be over."""
_BLANK_LINES = re.compile(r"(?:[^\S\n]*\n)*")


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a reply. The replies' text is `prefix + text + suffix` of its segments, byte for byte."""

    kind: Literal["prose", "block"]
    """`block`: becomes a cell. Fences with other tags are part of the prose."""
    text: str
    prefix: str = ""
    """Blank lines, and the opening line of a block."""
    suffix: str = ""
    """The closing line of a block, and blank lines."""
    lang: str = ""
    """The tag of a block: `repl`, `python` or `py`."""
    certain: bool = True
    """As `Fence.certain`."""

    @property
    def source(self) -> str:
        """What a block executes: its text with plain line breaks, without the indentation of its fence."""
        source = self.text.replace("\r\n", "\n")
        opening = self.prefix.rstrip("\r\n").rpartition("\n")[2]
        indent = len(opening) - len(opening.lstrip(" "))
        return re.sub(rf"^ {{1,{indent}}}", "", source, flags=re.MULTILINE) if indent else source


@dataclass(frozen=True, slots=True)
class ParsedReply:
    """What a reply consists of."""

    segments: tuple[Segment, ...]
    """Of the part that is read."""
    read: int
    """How many characters of the reply count: up to where the model begins to make up the output of its code."""
    unclosed: bool
    """A block was begun and never closed (the reply was cut off): it is left in the prose and not run."""

    @property
    def blocks(self) -> tuple[str, ...]:
        """The sources to run, in order."""
        return tuple(segment.source for segment in self.segments if segment.kind == "block")

    @property
    def prose(self) -> str:
        """All the prose, with a blank line where a block stood."""
        return "\n\n".join(segment.text for segment in self.segments if segment.kind == "prose")

    @property
    def prose_after(self) -> str:
        """The prose after the last block; all of it when there is no block."""
        last = self.segments[-1] if self.segments else None
        return last.text if last and last.kind == "prose" else ""

    @property
    def declared(self) -> Declaration | None:
        """The answer that its prose declares: prose before a block is a plan, and declares nothing."""
        return finals.declared_in_prose(self.prose_after)


def closed(reply: str) -> str:
    """Return a reply with the line that would close its last block."""
    last = fences.find_fences(reply)[-1]
    marker = reply[last.start : last.body].strip()
    return f"{reply}\n{marker[: len(marker) - len(marker.lstrip(marker[0]))]}"


@lru_cache(maxsize=8)  # the loop, the notebook and every display parse the reply that has just come
def parse(reply: str) -> ParsedReply:
    """Split a reply into prose and the blocks to run.

    The blocks that run are those tagged `repl`; where there is none, those tagged `python` or `py`. Models
    that are too eager write an output after their block, invented, and an answer on top of it: from there on
    nothing is read. Fences within the content of a `FINAL(...)` in prose belong to that answer.

    Parameters
    ----------
    reply
        As received.

    Returns
    -------
    ParsedReply
        For any text at all; nothing is refused.
    """
    found = _outside_finals(reply, fences.find_fences(reply))
    code = [f for f in found if f.lang in CODE_TAGS and f.closed and reply[f.body : f.body_end].strip()]
    # a small model writes its code as Python and then plays the kernel, or answers, in blocks tagged `repl`
    tagged = [f for f in code if f.lang == "repl" and not (f != code[0] and _says_only(reply[f.body : f.body_end]))]
    running = [f for f in code if f.lang == "repl"] if tagged else code
    read = _made_up_output(reply, found, running[0]) if running else len(reply)
    running = [f for f in running if f.start < read]
    unclosed = any(not f.closed and f.lang in CODE_TAGS and f.start < read for f in found)
    return ParsedReply(tuple(_segments(reply[:read], running)), read, unclosed)


class Reading:
    """Parses a reply while it arrives, and tells which parts nothing that follows can change.

    It never says that the reply is over where the whole might be read otherwise: `parse` of what was heard until then
    and `parse` of the whole have the same segments.
    """

    def __init__(self) -> None:
        self.opening = ""
        """The reply up to the end of its first block, once it is certain that this block is executed, as its first;
        alone it is read the same. Empty: that is not certain yet."""
        self._text = ""
        self._line = 0
        """Where the line begins that is still arriving."""
        self._fences = self._looks = self._looked_at = 0

    def is_over(self, text: str) -> bool:
        """Return whether the reply plays the kernel from some line on, now that `text` has come to it."""
        self._text += text
        if "\n" not in text:
            return False
        lines, self._line = self._text[self._line :], self._text.rfind("\n") + 1
        fences_before, whole = self._fences, self._text[: self._line]
        self._fences += sum("```" in line or "~~~" in line for line in lines.splitlines())
        # only such lines can end the reading, and only after a block
        may_end = self._fences > fences_before or _OUTPUT_LABEL.search(lines)
        if self._fences < 2 or not may_end:
            return False
        if self._looks > _LOOKS and len(whole) < self._looked_at * 1.1:
            return False  # nothing but fences, or headings: to read them all each time would be quadratic
        self._looks, self._looked_at = self._looks + 1, len(whole)
        parsed = parse(whole)
        self.opening = self.opening or _certain_opening(parsed)
        return _is_settled(whole, parsed)


def _certain_opening(parsed: ParsedReply) -> str:
    """Return this beginning of a reply up to the end of its first block; empty where what follows may undo that."""
    prose: list[Segment] = []
    for segment in parsed.segments:
        if segment.kind == "block":
            opening = "".join(one.prefix + one.text + one.suffix for one in [*prose, segment])
            # a FINAL before it may close its bracket behind it
            is_certain = _stays(segment) and not any(finals.opens_in_prose(one.text) for one in prose)
            return opening if is_certain and parse(opening).blocks == (segment.source,) else ""
        prose.append(segment)
    return ""


def _stays(block: Segment) -> bool:
    """Return whether a block is executed, and ends where it does, whatever follows it."""
    return block.lang == "repl" and block.certain  # of others, a `repl` block would take the place


def _is_settled(text: str, parsed: ParsedReply) -> bool:
    """Return whether this beginning of a reply is read up to the same place, and as the same, whatever follows it."""
    if parsed.read == len(text):
        return False
    blocks = [segment for segment in parsed.segments if segment.kind == "block"]
    if not blocks or not _stays(blocks[0]) or not all(block.certain for block in blocks):
        return False
    return not finals.opens_in_prose(parsed.prose)  # its bracket may close behind all this


def _outside_finals(reply: str, found: list[Fence]) -> list[Fence]:
    """Leave out the fences that stand in the content of a FINAL, where that ends outside of any."""
    if not found:
        return found
    starts = [fence.start for fence in found]
    contents = iter([d for d in finals.prose_declarations(reply) if d.kind == "FINAL"])
    content = next(contents, None)
    kept = []
    for fence in found:
        while content and content.end <= fence.start:
            content = next(contents, None)
        if content and content.start < fence.start and fence.closed:
            last = found[bisect_left(starts, content.end) - 1]
            if last.end <= content.end:
                continue
        kept.append(fence)
    return kept


def _made_up_output(reply: str, found: list[Fence], first: Fence) -> int:
    """Return where an output is written that no kernel gave, after the `first` block; else the reply's length."""
    position, follows_code = first.end, True
    for fence in [f for f in found if f.start >= first.end]:
        label = _OUTPUT_LABEL.search(reply, position, fence.start)
        if label:
            return label.start()
        if follows_code and fence.lang in CODE_TAGS and fence.closed and _is_output(reply[fence.body : fence.body_end]):
            return fence.start
        if fence.lang in _PLAIN_TAGS:
            line = _last_line(reply, position, fence.start)
            announced = reply[line : fence.start].rstrip(" \t\r\n*_")
            if announced.endswith(":") and _LEADS_TO_OUTPUT.search(announced):
                return line
            if _ANSWER_LABEL.match(announced):
                return line
            if fence.lang in _OUTPUT_TAGS or (follows_code and not reply[position : fence.start].strip()):
                return fence.start
        position, follows_code = fence.end, fence.lang in CODE_TAGS and fence.closed
    label = _OUTPUT_LABEL.search(reply, position)
    return label.start() if label else len(reply)


def _is_output(block: str) -> bool:
    """Return whether a block that follows code, and is tagged as such, holds what the code is to have put out."""
    # `output` alone and `# Output:` look like such a heading, and are valid Python as well
    played = _TRACEBACK.match(block) or _OUTPUT_LABEL.match(block.lstrip())
    return sources.tree(block) is None if played else sources.is_literal(block)


def _says_only(block: str) -> bool:
    """Return whether a block computes nothing: an output that was made up, or a typed answer."""
    return _is_output(block) or sources.only_constant_final(block)


def _last_line(text: str, start: int, end: int) -> int:
    """Return where the last line of `text[start:end]` that isn't blank begins."""
    return max(start, text.rfind("\n", start, start + len(text[start:end].rstrip())) + 1)


def _segments(text: str, running: list[Fence]) -> list[Segment]:
    segments: list[Segment] = []
    position, pending = 0, ""
    for fence in running:
        gap = text[position : fence.start]
        if gap.strip():
            segments.append(_prose(gap))
        elif segments:
            segments[-1] = _with_suffix(segments[-1], gap)
        else:
            pending = gap
        prefix = pending + text[fence.start : fence.body]
        source, suffix = text[fence.body : fence.body_end], text[fence.body_end : fence.end]
        segments.append(Segment("block", source, prefix, suffix, fence.lang, fence.certain))
        position, pending = fence.end, ""
    rest = text[position:]
    if rest.strip() or (rest and not segments):
        segments.append(_prose(rest))
    elif rest:
        segments[-1] = _with_suffix(segments[-1], rest)
    return segments


def _prose(text: str) -> Segment:
    blank = _BLANK_LINES.match(text)
    body = text[blank.end() if blank else 0 :]
    stripped = body.rstrip()
    return Segment("prose", stripped, text[: len(text) - len(body)], body[len(stripped) :])


def _with_suffix(segment: Segment, suffix: str) -> Segment:
    return replace(segment, suffix=segment.suffix + suffix)
