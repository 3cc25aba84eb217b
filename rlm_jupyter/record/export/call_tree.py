"""The tree of a run's calls, ready to be drawn: iterations, their cells, the cells' sub-calls, their own runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from rlm_jupyter.record import safe_html
from rlm_jupyter.record.export.bundle import WholeRun
from rlm_jupyter.record.export.markup import cut
from rlm_jupyter.record.iteration import Cell, Iteration
from rlm_jupyter.record.notice import compacted_line
from rlm_jupyter.record.thumbnails import address
from rlm_jupyter.types.endings import in_short, no_answer
from rlm_jupyter.types.events import ConversationCompacted, DirectReplied, SampleSettled, SubcallSettled
from rlm_jupyter.types.values import Output, Usage

_HEAD_CHARS = 90
_CALL_CHARS = 1_000_000
"""Of what a sub-call was asked, and of what it answered."""
Anchors = Mapping[tuple[int, int], str]
"""Where a cell is on the page, by iteration and block."""


@dataclass(frozen=True, slots=True)
class Node:
    """A line of the tree, that may be unfolded."""

    title: str
    facts: tuple[str, ...]
    kind: str = ""
    """`failed`, `cell`, `call` or nothing."""
    anchor: str = ""
    texts: tuple[tuple[str, str], ...] = ()
    """What unfolding shows: labels and texts."""
    images: tuple[tuple[str, str], ...] = ()
    """… and images: what they are, and as addresses that hold them."""
    outputs: tuple[Output, ...] = ()
    """… and what a cell has put out, where the page has it nowhere else."""
    nodes: tuple[Node, ...] = ()


def tree(run: WholeRun, anchors: Anchors | None = None) -> list[Node]:
    """Return a node for each iteration; at the end, runs that were started and did not answer yet."""
    children = {child.trajectory.run_id: child for child in run.children}
    compacted: defaultdict[int, list[Node]] = defaultdict(list)
    for record in run.trajectory.records:
        if isinstance(record, ConversationCompacted):
            compacted[record.iteration].append(_compacted(record))
    nodes: list[Node] = []
    for iteration in run.trajectory.iterations:
        nodes.append(_iteration(iteration, children, anchors or {}))
        nodes += compacted.get(iteration.index, [])
    samples = {sample.child: sample for sample in run.trajectory.samples}
    answered = {call.child for call in run.trajectory.subcalls} | {*samples}
    before = [_direct(reply) for reply in run.trajectory.direct]
    before += [_sample(sample, children.get(sample.child)) for sample in samples.values()]
    return [*before, *nodes, *(_run(child) for run_id, child in children.items() if run_id not in answered)]


def tokens(usage: Usage) -> str:
    """Return tokens, for people."""
    return f"{usage.total_tokens:,} tokens"


def dollars(cost: float | None) -> str:
    """Return a cost, for people."""
    return "cost unknown" if cost is None else f"${cost:,.4f}"


def seconds(number: float) -> str:
    """Return a time, for people."""
    return f"{number:,.1f} s" if number < 60 else f"{int(number // 60):,} min {number % 60:02.0f} s"


def _iteration(iteration: Iteration, children: Mapping[str, WholeRun], anchors: Anchors) -> Node:
    reply = iteration.reply
    prose = reply.text[: reply.read].partition("```")[0]
    shown = _line(safe_html.plain(prose[: 4 * _HEAD_CHARS]))
    return Node(
        f"Iteration {iteration.index}",
        (shown, reply.model, tokens(reply.usage), dollars(reply.cost), seconds(reply.seconds)),
        # the page has the cells of its own run further below, with the prose
        texts=() if anchors or not shown.endswith("…") else (("Reply", cut(prose.strip())),),
        nodes=tuple(_cell(cell, children, anchors.get((iteration.index, cell.block), "")) for cell in iteration.cells),
    )


def _cell(cell: Cell, children: Mapping[str, WholeRun], anchor: str) -> Node:
    count = len(cell.subcalls)
    calls = (f"{count:,} sub-call{'' if count == 1 else 's'}",) if count else ()
    ordered = sorted(cell.subcalls, key=lambda call: call.ordinal)
    return Node(
        f"Cell [{cell.execution_count or ' '}]",
        (_line(cell.source), *(() if cell.status == "ok" else (cell.status,)), *calls, seconds(cell.seconds)),
        "cell" if cell.status == "ok" else "failed",
        anchor,
        texts=() if anchor else (("Code", cut(cell.source)),),
        outputs=() if anchor else cell.outputs,
        nodes=tuple(_call(call, children) for call in ordered),
    )


def _call(call: SubcallSettled, children: Mapping[str, WholeRun]) -> Node:
    child = children.get(call.child or "")
    prompt = call.prompt if call.prompt is not None else call.prompt_head
    more = call.prompt_chars - len(prompt)
    asked, given = ("Call", "Result") if call.kind == "tool" else ("Prompt", "Reply")
    return Node(
        "tool" if call.kind == "tool" else f"{call.kind}_query",
        (
            _line(prompt),
            call.model or "a run of its own",
            tokens(call.usage),
            dollars(call.cost),
            seconds(call.seconds),
        ),
        "failed" if call.failed else "call",
        texts=(
            (asked, cut(prompt, _CALL_CHARS) + (f"… {more:,} more characters" if more > 0 else "")),
            ("Failed" if call.failed else given, cut(call.text, _CALL_CHARS)),
        ),
        images=tuple((image.said, whole) for image in call.images if (whole := address(image))),
        nodes=(_run(child),) if child is not None else (),
    )


def _direct(reply: DirectReplied) -> Node:
    facts = (_line(reply.text), reply.model, tokens(reply.usage), dollars(reply.cost), seconds(reply.seconds))
    return Node(f"Asked directly, reply {reply.number}", facts, "call", texts=(("Reply", cut(reply.text)),))


def _compacted(record: ConversationCompacted) -> Node:
    facts = (record.model, tokens(record.usage), dollars(record.cost), seconds(record.seconds)) if record.model else ()
    texts = (("Summary", cut(record.summary)),) if record.summary else ()
    return Node(compacted_line(record).rstrip("."), facts, "call" if record.model else "", texts=texts)


def _sample(sample: SampleSettled, child: WholeRun | None) -> Node:
    answer = sample.answer if sample.answer is not None else no_answer(sample.stop_reason)
    facts = (_line(answer), sample.model, tokens(sample.usage), dollars(sample.cost), seconds(sample.seconds))
    return Node(
        f"Sample {sample.sample}",
        facts,
        "failed" if sample.answer is None else "call",
        texts=(("Answer", cut(answer)),),
        nodes=() if child is None else (_run(child),),
    )


def _run(run: WholeRun) -> Node:
    trajectory = run.trajectory
    ended = trajectory.ended
    stop = in_short(ended.stop_reason, ended.message) if ended is not None else "not ended"
    usage, cost = trajectory.bill
    facts = (stop, trajectory.started.model, tokens(usage), dollars(cost))
    return Node(f"Run at depth {trajectory.started.depth}", facts, nodes=tuple(tree(run)))


def _line(text: str) -> str:
    line = " ".join(text[: 4 * _HEAD_CHARS].split())
    return line if len(line) <= _HEAD_CHARS else f"{line[:_HEAD_CHARS]}…"
