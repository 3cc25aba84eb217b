"""What there is to see of one iteration, drawn as HTML and kept once nothing in it changes any more."""

from __future__ import annotations

from dataclasses import dataclass, field

from rlm_jupyter.frontends.display import html as fragments
from rlm_jupyter.parsing import Segment, parse
from rlm_jupyter.prompts import outputs
from rlm_jupyter.record.notice import remark_on, resampled_notice
from rlm_jupyter.types.events import (
    CellFinished,
    CellStarted,
    NoticeGiven,
    OutputChanged,
    OutputsShown,
    ReplyReceived,
    ReplyStreamed,
    SubcallSettled,
    SubcallStarted,
)
from rlm_jupyter.types.values import CellStatus, Output

_CODE_CHARS = 3_000
_OUTPUT_CHARS = 2_000
_PROSE_CHARS = 2_000
_STREAM_CHARS = 2_000
_RENDERED_CHARS = 200_000
"""Of outputs that are still growing: beyond it only the size is said, since each look reads all of it."""


@dataclass(slots=True)
class SeenCell:
    """A cell, perhaps one that runs now."""

    source: str
    outputs: tuple[Output, ...] = ()
    status: CellStatus | None = None
    """`None` while it runs."""
    _drawn: str = ""

    def html(self) -> str:
        """Return source and outputs; kept once the cell has ended."""
        if self.status is None:
            return self._draw()
        self._drawn = self._drawn or self._draw()
        return self._drawn

    def _draw(self) -> str:
        if self.status == "skipped":
            return fragments.code(_cut(self.source, _CODE_CHARS)) + fragments.note("Not executed.")
        said = outputs.cut(self._text(), _OUTPUT_CHARS, variable=None).text
        drawn = fragments.code(_cut(self.source, _CODE_CHARS)) + fragments.output(said, failed=self.status == "error")
        notes = {"interrupted": "Interrupted.", "died": "The kernel died here."}
        return drawn + (fragments.note(notes[self.status]) if self.status in notes else "")

    def _text(self) -> str:
        size = sum(len(str(output.get("text", ""))) for output in self.outputs)
        if self.status is None and size > _RENDERED_CHARS:
            return f"[{size:,} characters so far]"
        # the traceback of an interrupt says nothing that the note below does not
        shown = [o for o in self.outputs if self.status != "interrupted" or o["output_type"] != "error"]
        return outputs.render(shown, where="in the notebook")


OfIteration = (
    ReplyStreamed
    | ReplyReceived
    | CellStarted
    | OutputChanged
    | CellFinished
    | SubcallStarted
    | SubcallSettled
    | NoticeGiven
    | OutputsShown
)
"""The events of the iteration under way."""


@dataclass(slots=True)
class SeenIteration:
    """An iteration, perhaps the one under way."""

    index: int
    stream: str = ""
    """The end of the reply that is arriving."""
    streamed: int = 0
    segments: tuple[Segment, ...] | None = None
    """Of the reply, when it is there."""
    cells: list[SeenCell] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    subcalls: int = 0
    tool_calls: int = 0
    seconds: float | None = None
    """Of the reply and the cells, as recorded."""
    reward: float | None = None
    is_last_call: bool = False
    """The last reply of a run that met a limit, which belongs to no iteration."""
    _drawn: str | None = None

    def apply(self, event: OfIteration, *, shows_outputs: bool = True) -> None:
        """Take in an event of it.

        Parameters
        ----------
        shows_outputs
            `False`: of the cells' outputs, keep the errors alone.
        """

        def shown(made: tuple[Output, ...]) -> tuple[Output, ...]:
            return made if shows_outputs else tuple(one for one in made if one["output_type"] == "error")

        match event:
            case ReplyStreamed(text=text):
                self.streamed += len(text)
                self.stream = (self.stream + text)[-_STREAM_CHARS:]
            case ReplyReceived():
                self._reply(event)
            case CellStarted(block=block, source=source):
                self.cell(block, source)
            case OutputChanged(block=block, outputs=changed):
                self.cell(block).outputs = shown(changed)
            case CellFinished(block=block):
                cell = self.cell(block, event.source)
                cell.outputs, cell.status = shown(event.outputs), event.status
                self.seconds = (self.seconds or 0.0) + event.seconds
            case SubcallSettled():
                self.subcalls += event.kind != "tool"
                self.tool_calls += event.kind == "tool"
            case NoticeGiven(text=text):
                self.notices.append(f"To the model: {text}")
            case _:
                pass

    def cell(self, block: int, source: str = "") -> SeenCell:
        """Return the n-th cell; events may begin with any of its kinds."""
        while len(self.cells) <= block:
            self.cells.append(SeenCell(source))
        return self.cells[block]

    def note(self, text: str) -> None:
        """Add a line below it, also when it is done."""
        self.notices.append(text)
        self._drawn = None

    def facts(self) -> list[str]:
        """Return what of it can be counted, for people."""
        facts = [count(len(self.cells), "cell")] if self.cells else []
        facts += [count(self.subcalls, "sub-call")] if self.subcalls else []
        facts += [count(self.tool_calls, "tool call")] if self.tool_calls else []
        facts += [f"{self.seconds:.1f} s"] if self.seconds is not None else []
        return facts + ([f"reward {self.reward:+.2f}"] if self.reward is not None else [])

    def html(self, *, done: bool) -> str:
        """Return the body; kept once the iteration is done."""
        if not done:
            return self._draw()
        if self._drawn is None:
            self._drawn = self._draw()
        return self._drawn

    def _reply(self, reply: ReplyReceived) -> None:
        self.seconds = (self.seconds or 0.0) + reply.seconds
        self.stream, self.streamed = "", 0
        if reply.rejected:
            notice, before = resampled_notice(reply.rejected)
            self.notices = [*(other for other in self.notices if other != before), notice]
        else:
            # no block of a last reply is executed: it is shown as what was said
            self.segments = (Segment("prose", reply.text),) if reply.forced else parse(reply.text).segments
            self.is_last_call = reply.forced
            if not reply.forced and (remark := remark_on(reply)):
                self.notices.append(remark)

    def _draw(self) -> str:
        if self.segments is None and self.stream:
            hidden = self.streamed - len(self.stream)
            return fragments.stream(("… " if hidden else "") + self.stream)
        pieces: list[str] = []
        cells = iter(self.cells)
        for segment in self.segments or ():
            if segment.kind == "prose":
                pieces.append(fragments.prose(_cut(segment.text.strip(), _PROSE_CHARS)))
            else:
                cell = next(cells, None)
                waiting = fragments.code(_cut(segment.source, _CODE_CHARS))
                pieces.append(cell.html() if cell is not None else waiting)
        pieces += [cell.html() for cell in cells]  # those that were made of a FINAL in prose
        return "".join(pieces) + "".join(map(fragments.note, self.notices))


def count(number: int, unit: str) -> str:
    """Return `1 cell`, `1,204 cells`."""
    return f"{number:,} {unit}{'' if number == 1 else 's'}"


def _cut(text: str, limit: int) -> str:
    return outputs.cut(text, limit, variable=None).text
