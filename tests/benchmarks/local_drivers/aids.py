"""`AIDS`: what a run does for its model beyond the loop itself, each of which can be left out to measure what it is worth.

An aid is left out by putting something else in the place of a function of this project: where there is no such function
any more, `leave_out` raises, so that no run passes for one without an aid that had it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from operator import attrgetter
from typing import Any

from rlm_jupyter.parsing import ParsedReply
from rlm_jupyter.prompts import notices
from rlm_jupyter.prompts.structure import PROSE
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.reply_checks import EMPTY, Rejection
from rlm_jupyter.types.values import ContextInfo

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Aid:
    """What is helped, in words, and the functions in whose place others are put."""

    does: str
    instead: Mapping[str, Callable[[Function], Function]]
    """By `module:attribute`: what makes the other function from the one that is there."""


def leave_out(names: Iterable[str]) -> None:
    """Leave aids out, in this process.

    Raises
    ------
    KeyError
        There is no such aid.
    AttributeError
        What it consists of is not where it was.
    """
    for name in names:
        for place, instead in AIDS[name].instead.items():
            module_name, _, path = place.partition(":")
            owner_path, _, attribute = path.rpartition(".")
            module = import_module(module_name)
            owner = attrgetter(owner_path)(module) if owner_path else module
            setattr(owner, attribute, instead(getattr(owner, attribute)))


def came_up(trajectory: Trajectory) -> list[str]:
    """Return the aids that did something in a run, beyond its first message, by their names."""
    begun, ended = trajectory.iterations, trajectory.ended
    replies = [*(one.reply for one in begun), *trajectory.rejected]
    said = [notice for one in begun for notice in one.notices]
    blind = notices.BLIND.partition("{")[0]
    found = {
        "questioning": any(
            text.startswith((blind, notices.NOTHING_SHOWN, notices.ECHO, notices.UNSEEN)) for text in said
        ),
        "last_reply": ended is not None and "is not taken for an answer" in ended.message,
        "resampling": any(reply.rejected not in {"", EMPTY} for reply in replies),
        "reading": any(reply.unread.strip() for reply in replies),
        "mending": any(cell.executed is not None for one in begun for cell in one.cells),
        "passage": any(notices.NO_PASSAGE in call.text for call in trajectory.subcalls if call.failed),
    }
    return [name for name, did in found.items() if did]


def _always(value: object) -> Callable[[Function], Function]:
    return lambda _: lambda *_args, **_keywords: value


def _says_nothing_of_form(about: Function) -> Function:
    def told(context: ContextInfo) -> object:
        is_text = PROSE in context.details
        lines, _ = about(replace(context, details=(PROSE,) if is_text else ()))
        return lines, None

    return told


def _shows_no_code(first_block: Function) -> Function:
    return lambda context, access, question: first_block(context, None, question)


def _shows_no_search(first_block: Function) -> Function:
    def shown(context: ContextInfo, access: str | None, question: str) -> object:
        return first_block(replace(context, details=tuple(d for d in context.details if d != PROSE)), access, question)

    return shown


def _only_empty(_: Function) -> Function:
    def rejection(run: object, reply: ParsedReply, text: str) -> Rejection | None:
        return None if text.strip() else Rejection(EMPTY)

    return rejection


def _all_of_it(_: Function) -> Function:
    return lambda reply, *_rest: len(reply)


_RUN = "rlm_jupyter.run"
AIDS: Mapping[str, Aid] = {
    "form": Aid(
        "The first message says what the context is (a table with these columns, a log, …), and how to get at it.",
        {"rlm_jupyter.prompts.initial:_about": _says_nothing_of_form},
    ),
    "code": Aid(
        "The first message ends with that code as a block that may be copied.",
        {"rlm_jupyter.prompts.initial:_first_block": _shows_no_code},
    ),
    "search": Aid(
        "For running text, it ends with `SEARCH`, as a block that may be copied.",
        {"rlm_jupyter.prompts.initial:_first_block": _shows_no_search},
    ),
    "questioning": Aid(
        "A typed answer is questioned once: before anything was shown, beside code, or when it is the question itself.",
        {
            f"{_RUN}.iteration:_question_blind_answer": _always(value=False),
            f"{_RUN}.iteration:_question_echo": _always(value=False),
            f"{_RUN}.iteration:_is_confirmed": _always(value=True),
        },
    ),
    "last_reply": Aid(
        "A last reply in prose is no answer where no output can have led to it.",
        {f"{_RUN}.loop:_no_answer": _always(value="")},
    ),
    "resampling": Aid(
        "A reply that repeats one that failed or changed nothing is resampled, and left out of the conversation.",
        {f"{_RUN}.reply_checks:rejection": _only_empty, f"{_RUN}.reply_checks:may_reject": _always(value=False)},
    ),
    "reading": Aid(
        "A reply is read up to where the model makes up the output of its code.",
        {
            "rlm_jupyter.parsing.reply:_made_up_output": _all_of_it,
            "rlm_jupyter.parsing.reply:Reading.is_over": _always(value=False),
        },
    ),
    "mending": Aid(
        "`FINAL(Oslo)` is the text that an output ended with; a stand-in for `llm_query` in a cell is left out.",
        {f"{_RUN}.iteration:_with_quotes": _always(value=None), "rlm_jupyter.parsing:mend_cell": _always(value=None)},
    ),
    "passage": Aid(
        "A sub-call that can be about nothing, for no passage stands in it, is not sent the first time.",
        {f"{_RUN}.subcalls:_has_no_passage": _always(value=False)},
    ),
}
"""By the name that `--without` takes."""
