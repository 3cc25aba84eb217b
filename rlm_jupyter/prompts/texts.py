"""What the model is told, by the record: byte-stable, so that a provider's cache hits from one iteration to the next.

What the model is told follows the paper's findings (arXiv 2512.24601, appendix): the size of the context,
what a sub-call takes, look before you answer, few large sub-calls, how to end. What a small model follows best was
measured: it is shown how the context begins, and each message ends with what to reply, an example that may be copied
included. The text never holds a clock, an id or an address.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlm_jupyter.prompts.preview import is_whole
from rlm_jupyter.prompts.search_hints import leads_to, named, search, search_words
from rlm_jupyter.types.values import CellStatus, ContextInfo, Variable

if TYPE_CHECKING:
    from rlm_jupyter.kernel.snapshots import Restored

_SYSTEM = """\
You answer a question about a text, or data, that may be far longer than you can read: it is the variable `context` \
in a Jupyter kernel, and you work on it by writing Python. Reply with one ```repl block of code. It is executed, and \
the next message shows you its outputs; write no output yourself.

- Only the beginning of `context` is shown to you: the code must go through all of `context` itself; retype none.
- What code can decide (find, count, sort, compute), let code decide, and print what comes of it.
- What needs reading (meaning, kinds, opinions, summaries), narrow down by code first. If little is left, print and \
read it; else give it to `llm_query_batched`, without repetitions and in a few large prompts rather than many tiny \
ones: each with many items, or a long passage up to the size below (one is fine if all fits). Say how borderline cases \
count, ask for short replies in a form that code can read, check that they are complete, and put them together by code.
- If there is an error, or nothing was found, write different code: print what is there, or search for fewer words, \
whatever their case. Look at all of `context` before you conclude that something is missing.
- When the outputs answer the question, reply with a block that holds only `FINAL(...)`, with the answer in it: what \
the question asks for, complete and in the form it asks for. Where it leaves something open, decide, and say so if \
that form has room for it.

What there is besides Python:
- `FINAL(value)` ends the work: a text, a number, a list, a dict, any expression. `FINAL_VAR("name")` ends it with the \
content of a variable, and `SHOW_VARS()` lists those that you have.
- `llm_query_batched(prompts)` asks a language model about each of a list of prompts, all at once, and returns its \
replies in order. It reads the prompt and nothing else, up to about {sub_chars:,} characters: put the question and the \
passage into it, f"YOUR QUESTION\\n\\n{{passage}}". `llm_query(prompt)` asks about one, and returns a str.
{recursion}\
- The kernel keeps your variables and imports; import what you use. The last expression of a block is shown, `!shell` \
and %magics work, so does top-level `await`. Outputs over {output_chars:,} characters are cut in the middle and kept \
whole in a variable that is named then.
"""

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

_RECURSION = """\
- `rlm_query(text)`: hands a sub-problem to another worker like you, with a kernel of its own, in which `text` is \
`context` and begins with the question; for a part that itself needs several steps. \
`rlm_query_batched(texts)` hands over several at once.
"""

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
    "The last block of your reply is not closed, so it was not executed. Send it again, whole: one ```repl block of "
    "code, without outputs."
)
BLIND = (
    "You answered before any code looked at `context`. Look at it first, with a block such as\n"
    "```repl\n{probe}\n```\nIf you are sure all the same, send the same FINAL again."
)
NOTHING_SHOWN = (
    "You typed an answer, but your code has shown nothing yet that it could come from. Write different code, and print "
    "what it finds. If you are sure all the same, send the same FINAL again."
)
UNSEEN = (
    "You wrote FINAL in the same reply as code, before you saw what the code printed, so it does not count yet. "
    "Look at the outputs above; if they confirm it, send FINAL again in a block of its own."
)
NUDGE = (
    "The same block again would only come to the same. If its output answers the question, end with FINAL; if not, "
    "write a different one: look at another part, or search in another way."
)
NUDGE_IN_VAIN = (
    "The same block again would only come to the same. Write a different one: look at what is there, or search in "
    "another way."
)
NOT_READY = (
    'answer["ready"] is True, but no cell of yours says so plainly, so it does not count: write '
    'answer["ready"] = True in the cell itself, or end with FINAL.'
)
BARE = (
    "The model that you ask reads this prompt and nothing else, not `context`, and there is only the question in it, "
    "or what you were shown yourself. "
    "Find the passages by code and put them into the prompt, as in "
    'llm_query(f"QUESTION\\n\\n{passage}"); or let code decide'
)
EXITED = "`exit()` ended this cell, not the kernel. Nothing below it in that reply was executed; leave it out."
STAND_INS = "What your cell put in place of {names} was left out: the real thing is there already, use it as it is."
MISSES = (
    "The question asks for {kind}, and there is none in your answer. Reply with a block that looks for what leads to "
    "it{how}"
)
NOT_FOUND = "Before you conclude that there is nothing, {how}"
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
NOT_RESTORED = "These had come back from a snapshot when the kernel died, and have not come back now: {names}."
BEFORE_MISSING = "What the prompts before this one had set in their kernel is missing: their records are not known."
GOES_ON = "The work goes on: code can be executed. {status}"
FORCED = (
    "No more code can be executed. Give your best answer now, from what you have seen: only the answer itself, as "
    "plain text, without code."
)


def system(*, output_chars: int, sub_chars: int, recursive: bool, extra: str = "") -> str:
    """Return the system message of a run.

    Parameters
    ----------
    output_chars
        What is shown of an iteration's outputs.
    sub_chars
        What a sub-call takes: the sub-model's real window, in characters.
    recursive
        Whether `rlm_query` starts a run of its own; where it is a plain call, it is not mentioned.
    extra
        A paragraph of the user's.
    """
    text = _SYSTEM.format(
        output_chars=output_chars,
        sub_chars=sub_chars,
        recursion=_RECURSION if recursive else "",
    )
    return f"{text}\n{extra}\n" if extra else text


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


def misses(kind: str, answer: str, outputs: str, prompt: str, context: ContextInfo) -> str:
    """Return what a model is told that typed an answer without what the question asks for.

    Parameters
    ----------
    kind
        What it asks for: `guards.answers.missing`.
    answer, outputs
        Where something may stand that leads to it.
    """
    name = leads_to(answer, prompt) or leads_to(outputs, prompt)
    block = None if name is None else search(name, context)
    return MISSES.format(kind=kind, how="." if block is None else f", such as\n{block}")


def opening(
    prompt: str,
    context: ContextInfo,
    *,
    max_iterations: int,
    left: Sequence[str] = (),
    history: int = 0,
    restarted: str = "",
) -> str:
    """Return the first user message: the prompt between tags, what `context` is, and what may be used.

    Parameters
    ----------
    left
        What is left of the limits, such as `1,000 sub-calls`.
    history
        How many prompts were answered in this kernel before; they stand in `history`.
    restarted
        It died since, and was started again: what that means for its variables.
    """
    lines = []
    if context.type_name == "none":
        lines.append("There is no context this time: `context` is empty. Work it out by code, or with llm_query.")
    else:
        article = "an" if context.type_name[:1] in "aeioAEIOU" else "a"
        lines.append(f"`context` is {article} {context.type_name}: {context.size}.")
        lines += context.details
        if context.beginning:
            shown = "This is all of it:" if is_whole(context) else "It begins with:"
            tag = "beginning"
            while f"{tag}>" in context.beginning:  # a text must not seem to end before it does
                tag += "_"
            lines += [shown, f"<{tag}>\n{context.beginning}\n</{tag}>"]
    if history:
        variables = f"it died and was started again{restarted}" if restarted else "its variables are still there"
        lines.append(
            f"This kernel has answered {history} prompt{'s' if history > 1 else ''} before: {variables}, "
            "and `history` is a list of those prompts and answers."
        )
    lines += ["", f"<prompt>\n{prompt}\n</prompt>", "", f"You have {max_iterations} iterations; each reply is one."]
    if left:
        lines[-1] += f" Left: {', '.join(left)}."
    if context.type_name == "none":
        lines.append("Write the first ```repl block: code that works out the answer and prints it.")
    elif (name := named(prompt)) is not None and (block := search(name, context)) is not None:
        lines.append(
            "Write the first ```repl block. If the question is about one thing, print where it is named, as in\n"
            f"{block}\n"
            "If it is about all of `context`, count or compute over all of it, and print the result."
        )
    else:
        lines.append("Write the first ```repl block: code that goes through all of `context` and prints the answer.")
    return "\n".join(lines)


def revived(what: str, before: Sequence[Variable], now: Sequence[Variable], restored: Restored | None) -> str:
    """Return what the model is told when its kernel has died and was started again.

    Parameters
    ----------
    what
        How it died, as the beginning of the sentence.
    before, now
        Its variables.
    restored
        What a snapshot has brought back; `None`: there was none.
    """
    text = f"{what} and was started again. `context` and the functions are back"
    gone = gone_names(before, now, restored) or "none"
    if restored is None:
        return f"{text}; your variables are gone: {gone}."
    back = back_names(now, restored)
    if not back:
        why = f" Their snapshot could not be read: {restored.problem}." if restored.problem else ""
        return f"{text}; your variables are gone: {gone}.{why}"
    why = f" Not all of the snapshot could be read: {restored.problem}." if restored.problem else ""
    return f"{text}. These are back {back}. Gone: {gone}.{why}"


def since_died(before: Sequence[Variable], now: Sequence[Variable], restored: Restored | None) -> str:
    """Return what became of the variables of a kernel that died between two prompts, after a sentence that says so.

    Parameters are those of `revived`.
    """
    back = "" if restored is None else back_names(now, restored)
    if not back:
        return ", so its variables are gone"
    return f"; these are back {back} (gone: {gone_names(before, now, restored) or 'none'})"


def back_names(now: Sequence[Variable], restored: Restored) -> str:
    """Return the variables that a snapshot has brought back, and as of when; empty where there are none."""
    if restored.moment is None:
        when = "as they were before this prompt"
    else:
        iteration, block = restored.moment
        when = f"as they were after iteration {iteration}" + (f" (block {block + 1})" if block else "")
    parts = [", ".join(variable.name for variable in now)]
    parts.append(f"imports: {', '.join(restored.modules)}" if restored.modules else "")
    names = "; ".join(part for part in parts if part)
    return f"{when}: {names}" if names else ""


def gone_names(before: Sequence[Variable], now: Sequence[Variable], restored: Restored | None) -> str:
    """Return the variables that are gone, with the reason where it is known; empty where there are none."""
    back = {variable.name for variable in now}
    reasons = {} if restored is None else restored.reasons
    gone = [variable.name for variable in before if variable.name not in back]
    gone += [name for name in reasons if name not in back and name not in gone]
    return ", ".join(f"{name} ({reasons[name]})" if name in reasons else name for name in gone)


def status(iteration: int, max_iterations: int, left: Sequence[str], cue: str = "") -> str:
    """Return the line that ends an iteration's outputs: which comes next, what is left, and what to reply.

    Parameters
    ----------
    cue
        What to reply, as far as the outputs tell (`cue`).
    """
    line = "No iteration is left." if iteration == max_iterations else f"Iteration {iteration + 1} of {max_iterations}."
    if left:
        line += f" Left: {', '.join(left)}."
    if iteration == max_iterations:
        return line
    if iteration + 1 == max_iterations:
        cue = "This is the last one: end with FINAL."
    return f"{line} {cue}".rstrip()


_FOUND_NOTHING = re.compile(
    r"(?=[^\n]{0,120}\Z).*\b(?:(?<!404 )not (?:be )?found|no(?:ne)? (?:\w+ ){0,3}found|no match\w*)\b.*", re.IGNORECASE
)
"""`says_nothing_found`."""
_NOTHING = re.compile(
    r"(?:[^\n]{0,80}(?::|=|\bis|\bare))?\s*(?:\[\]|\{\}|\(\)|set\(\)|''|None|0|0\.0|-1)\.?", re.IGNORECASE
)
"""An output that is empty or zero: what a search in vain shows, and what a count of none rightly is."""


def cue(statuses: Sequence[CellStatus], text: str, prompt: str, context: ContextInfo) -> str:
    """Return what to reply, after cells that ended so and showed this; empty where none was executed.

    A small model takes its last instruction from the end of the message: told to end with FINAL if that is an answer,
    it ends with an error.
    """
    if not statuses:
        return ""
    if statuses[-1] != "ok":
        return "The block did not succeed: reply with a different one."
    if not text.strip():
        return "Nothing was shown: reply with a block that prints what you look for."
    if says_nothing_found(text):
        return f"Nothing was found that way: {_search_words(prompt, context)}"
    if _NOTHING.fullmatch(text.strip()):
        return (
            "If that is the answer (there may be none), reply with a block that holds only FINAL(...), with the answer "
            f"in it; else {_search_words(prompt, context)}"
        )
    return (
        "If the outputs answer the question, reply with a block that holds only FINAL(...), with the answer in it; "
        "else with different code."
    )


def not_found(prompt: str, context: ContextInfo) -> str:
    """Return what a model is told that concludes from a search in vain."""
    return NOT_FOUND.format(how=_search_words(prompt, context))


def _search_words(prompt: str, context: ContextInfo) -> str:
    block = search_words(prompt, context)
    if block is None:
        return "reply with a block that prints what is there."
    return f"reply with a block that shows how it is written, such as\n{block}"


def says_nothing_found(text: str) -> bool:
    """Whether a text says in words that a search was in vain; `0` and `[]` may be the answer."""
    return _FOUND_NOTHING.fullmatch(text.strip()) is not None


def nudge(statuses: Sequence[CellStatus], text: str) -> str:
    """Return what a model is told that was about to repeat cells which had ended so and shown this."""
    is_answer = statuses and statuses[-1] == "ok" and text.strip() and not says_nothing_found(text)
    return NUDGE if is_answer else NUDGE_IN_VAIN
