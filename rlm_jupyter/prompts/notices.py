"""What the model is told between two replies, of its replies, its cells and its kernel."""

from __future__ import annotations

from collections.abc import Sequence

from rlm_jupyter.types.values import Variable

_PROBES = {
    "str": "print(type(context), len(context))\nprint(context[:1000])",
    "bytes": "print(type(context), len(context))\nprint(context[:200])",
    "list": "print(type(context), len(context))\nprint(context[:3])",
    "tuple": "print(type(context), len(context))\nprint(context[:3])",
    "dict": "print(type(context), len(context))\nfor key in list(context)[:5]:\n    print(key, str(context[key])[:99])",
    "DataFrame": "print(context.shape, context.dtypes)\nprint(context.head())",
    "none": "import math\nprint(math.factorial(20))",
}
"""How to look at a context, by its type: models copy it, so it must fit."""

GO_ON = (
    "There was no code block in your reply. Write one that begins with ```repl; or end with FINAL(your answer) in such "
    "a block."
)
LOOK_FIRST = (
    "There was no code block in your reply, and no code has looked at `context` yet. Look at it, with a block such as\n"
    "```repl\n{probe}\n```"
)
CUT_OFF = (
    "Your reply was cut off before its last block was closed, so that block was not executed. Send it again, shorter."
)
UNCLOSED = (
    "The last block of your reply is not closed by a line of ```, so it was not executed. Send it again, whole: one "
    "```repl block of code."
)
BLIND = (
    "You answered before any code looked at `context`. Look at it first, with a block such as\n"
    "```repl\n{probe}\n```\nIf you are sure all the same, send the same FINAL again."
)
NOTHING_SHOWN = (
    "You typed an answer, but your code has shown nothing yet that it could come from. Write different code, and print "
    "what it finds. If you are sure all the same, send the same FINAL again."
)
ECHO = (
    "What you gave as the answer is the question itself, so it does not count yet. Answer it, from what your code has "
    "shown. If just these words are asked for, send the same FINAL again."
)
UNSEEN = (
    "You wrote FINAL in the same reply as code, before you saw what the code printed, so it does not count yet. "
    "Look at the outputs above; if they confirm it, send FINAL again in a block of its own."
)
NOT_READY = (
    'answer["ready"] is True, but no cell of yours says so plainly, so it does not count: write '
    'answer["ready"] = True in the cell itself, or end with FINAL.'
)
WRONG_FORM = (
    "Your answer does not count yet, because it does not have the form that was asked for:\n{reasons}\n\n"
    "Mend that by code, and end with FINAL again."
)
WRONG_FILES = "Your answer does not count yet, because files that were asked for are not as they must be in OUTPUTS:"
"""How the notice begins that says so."""
MEND_FILES = "\n\nMake them by code, and end with FINAL again."
OUTPUTS_GONE = " The folder OUTPUTS is empty again: make its files once more."
EMPTY = "the prompt is empty, and was not sent: put the question and the passage into it."
NO_MORE_IMAGES = "No further image was sent to it."
NO_PASSAGE = (
    "the sub-model reads this prompt and nothing of `context`, so it could only make its reply up, and was not asked. "
    'Put the passage into the prompt, as in llm_query(f"QUESTION\\n\\n{passage}"), or let code decide. If it '
    "needs none, ask in other words."
)
NOT_SENT_AGAIN = "The same prompt was not sent again: change it."
EXITED = "`exit()` ended this cell, not the kernel. Nothing below it in that reply was executed; leave it out."
SHADOWING = "What your cell put in place of {names} was left out: the real thing is there already, use it as it is."
SENT_BACK = (
    "Your answer is kept, but it does not end the work yet: the termination policy {policy} did not accept it. Check "
    "it once more or improve it, and give it again with FINAL; FINAL(answer, confidence=0.9) says how sure you are."
)
EMPTY_KERNEL = (
    "The work goes on in a new kernel: `context` and the functions are there, your variables are not, because your "
    "cells were not executed again. Make again what you need."
)
DIFFERS = (
    "The work goes on in a new kernel, in which your cells were executed again. Some gave other outputs than those you "
    "were shown, and your variables hold what came of it now:"
)
REEXECUTED = (
    "The cells of the prompts before were executed again in a new kernel. Some gave other outputs than recorded, and "
    "the variables hold what came of it now:\n{differences}\n\n"
)
PASSED_OVER = (
    "Cells that had been interrupted were not executed again, so what they had set is missing: those of iteration "
    "{iterations}."
)
NOT_RESTORED = "These had come back when the kernel died, and have not come back now: {names}."
BEFORE_MISSING = "What the prompts before this one had set in their kernel is missing: their records are not known."
GOES_ON = "The work goes on: code can be executed. {status}"
LAST_REPLY = (
    "No more code can be executed. Give your best answer now, from what you have seen: only the answer itself, as "
    "plain text, without code."
)
EDITED = "The user edited this cell before it ran. This ran:\n{source}"
EMPTIED = "The user took all code out of this cell: nothing was executed."
REFUSED = "The user refused this cell; it was not run.{message}"
UNDONE = (
    "The user undid your last cell (iteration {iteration}, block {block}): the kernel is as it was before it. "
    "Variables there are: {names}. Files that it changed stay changed. The cell that you wrote now was not run."
    "{message}"
)
FROM_USER = "A message from the user: {message}"
RESTORED_NAMES = "These names are not yours to change and were put back: {names}."
BATCH_REFUSED = "A batch of sub-calls was refused: {reason}"
CUT_SUBCALLS = (
    "Replies to sub-calls that broke off at {most:,} tokens, and are incomplete: {count:,}. Ask for shorter ones, or "
    "about less at once."
)
REPEATED_SUBCALLS = (
    "Sub-calls that had been asked before, word for word: {count:,}. They got the same replies, and were not sent "
    "again."
)
UNSEEN_IMAGES = (
    "{model} sees no images: it was told their kind and size alone, and what its replies say of them is made up. Name "
    'a model that sees, llm_query([…], model="provider/model"), if there is one, or work on the images by code.'
)
NO_ANSWER_YET = "{problem} There is no answer yet."
STOPPED = (
    "The work was stopped while this cell was being executed. It was not executed again, so what it had set is "
    "missing. If you still need it, do it in another way, or in smaller steps."
)
INTERRUPTED = "The cell took too long and was interrupted. Do less at once."
VARIABLES = "Variables there are: {names}."
QUOTED = "A text stands in quotes: FINAL({text!r}). "
READY_EMPTY = 'answer["ready"] is True, but answer["content"] is empty: put the answer there.'
READY_UNREADABLE = 'answer["content"] can\'t be turned into text: put the answer itself there.'
DIED_BETWEEN = "The kernel died between two cells"
"""How the notice begins that says so."""
DIED_WITHIN = "The kernel died while it executed this cell"


def blind(type_name: str, *, has_run: bool) -> str:
    """Return what a model is told that answers before it has seen anything of a context of this type.

    Parameters
    ----------
    has_run
        Whether a cell was executed, but failed or showed nothing; else it is told how to look.
    """
    return NOTHING_SHOWN if has_run else BLIND.format(probe=_probe(type_name))


def look_first(type_name: str) -> str:
    """Return what a model is told that only talks before it has looked at a context of this type, and how to look."""
    return LOOK_FIRST.format(probe=_probe(type_name))


def _probe(type_name: str) -> str:
    return _PROBES.get(type_name, "print(type(context))\nprint(repr(context)[:1000])")


def restarted(what: str, before: Sequence[Variable]) -> str:
    """Return what the model is told when its kernel has died and was started again, with none of its variables.

    Parameters
    ----------
    what
        How it died, as the beginning of the sentence.
    before
        The variables that it had.
    """
    gone = ", ".join(variable.name for variable in before) or "none"
    return f"{what} and was started again. `context` and the functions are back; your variables are gone: {gone}."


def revived(what: str, position: tuple[int, int] | None, before: Sequence[Variable], now: Sequence[Variable]) -> str:
    """Return what the model is told when its kernel has died, and goes on as it was before.

    Parameters
    ----------
    what
        How it died, as the beginning of the sentence.
    position
        After which cell it was as it is now, iteration and block; `None`: before this prompt.
    before
        The variables that were known when it died.
    now
        Those that there are.
    """
    iteration, block = position or (0, 0)
    when = "before your first cell"
    if iteration:
        when = f"after iteration {iteration}" + (f" (block {block + 1})" if block else "")
    there = ", ".join(variable.name for variable in now) or "none"
    names = {variable.name for variable in now}
    gone = ", ".join(variable.name for variable in before if variable.name not in names)
    return (
        f"{what}. It goes on as it was {when}: what was done in it since then is lost, and nothing else. Variables, "
        f"imports and open files are there: {there}." + (f" Gone: {gone}." if gone else "")
    )


def since_died(before: Sequence[Variable], now: Sequence[Variable]) -> str:
    """Return what became of the variables of a kernel that died between two prompts, after a sentence that says so."""
    if not now:
        return ", so its variables are gone"
    names = {variable.name for variable in now}
    gone = ", ".join(variable.name for variable in before if variable.name not in names) or "none"
    there = ", ".join(variable.name for variable in now)
    return f"; these are back as they were before this prompt: {there} (gone: {gone})"
