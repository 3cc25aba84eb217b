"""The messages that a run begins with: byte-stable, so that a provider's cache hits from one iteration to the next.

They follow the paper's findings (arXiv 2512.24601, appendix): the size of the context, what a sub-call takes, look
before you answer, few large sub-calls, how to end. What a small model follows best was measured: it is shown how the
context begins, and each message ends with what to reply, an example that may be copied included. No text here holds a
clock, an id or an address.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlm_jupyter.prompts.preview import is_whole
from rlm_jupyter.prompts.structure import PROSE, without_code
from rlm_jupyter.prompts.tools import tool_list
from rlm_jupyter.types.values import ContextInfo

_SYSTEM = """\
You answer a question about a text, or data, that may be far longer than you can read: it is the variable `context` \
in a Jupyter kernel, and you work on it by writing Python. Reply with one ```repl block of code. It is executed, and \
the next message shows you its outputs; write no output yourself.

- Only the beginning of `context` is shown to you: the code must go through all of `context` itself; copy no \
passage of it into your code.
- What code can decide (find, count, sort, compute), let code decide, and print what comes of it.
- What needs reading (meaning, kinds, opinions, summaries), narrow down by code first. If little is left, print and \
read it; else give it to `llm_query_batched`, each passage once, in few large prompts. Tell the sub-model how to \
decide borderline cases, and name the type of its reply: with `answer=list[str]` it comes back as a checked list. \
Combine the replies by code.
- If there is an error, or nothing was found, write different code: print what is there, or search for fewer words, \
whatever their case. Look at all of `context` before you conclude that something is missing.
- When the outputs answer the question, reply with a block that holds only `FINAL(...)`, with the answer in it: what \
the question asks for, complete and in the form it asks for. Where it leaves something open, decide, and say so if \
that form has room for it.

What there is besides Python:
- `FINAL(value)` ends the work: a number, a list, a dict, any expression; a text where its form counts (decimals, \
zeros). `FINAL_VAR("name")` ends it with the content of a variable, and `SHOW_VARS()` lists those that you have.
- `llm_query_batched(prompts)` asks a language model about each of a list of prompts, {at_once} at a time, and \
returns its replies in order. It reads the prompt and nothing else, up to about {sub_chars:,} characters, and replies \
with up to about {reply_chars:,}: put the question and the passage into it, f"YOUR QUESTION\\n\\n{{passage}}". \
`llm_query(prompt)` asks about one, and returns a str.
{images}\
{recursion}\
- The kernel keeps your variables and imports; import what you use. The last expression of a block is shown, `!shell`, \
%magics and top-level `await` work. {figures}Outputs over {output_chars:,} characters in all are cut in the middle, \
and kept whole in a variable that is named then.
"""

_IMAGES = """\
- It sees images, too: a prompt may be a list of texts and images (PIL, the bytes of a PNG or JPEG, a Path, a figure), \
`llm_query(["QUESTION", image])`.
"""
_FIGURES = "The figures that it draws or displays are shown to you. "
_RECURSION = """\
- `rlm_query(text)`: hands a sub-problem to another worker like you, with a kernel of its own, in which `text` is \
`context` and begins with the question; for a part that itself needs several steps. \
`rlm_query_batched(texts)` hands over several at once.
"""
_SURROUNDINGS = """\
This time you work in the kernel of the user's own notebook, not in one of your own. Its variables are theirs: you see \
and change the very objects, and what you change stays changed. Change or delete only what the task asks for, and give \
new variables names that are not taken."""
_FILES = (
    "Before FINAL, write these files by code, with these names, into the folder `OUTPUTS` (a `pathlib.Path` that is "
    'there already, as in `OUTPUTS / "NAME"`); files elsewhere do not count:'
)
_MOST_VARIABLES = 100
_MOST_CONTEXTS = 8
_ACCESS = {"DataFrame": "df = context", "list": "items = context"}
"""Code to begin with, by type: models that know only files open one otherwise."""
_SEARCH = """ If the question is about all of `context`, count or compute over all of it, or have it read. If it is \
about one thing, `SEARCH(words)` returns the sentences or lines that hold the rarest of these words, best first, and \
behind the best those that share a rare name or number with it, as a list of str; what they name may be searched for \
next:
```repl
print(SEARCH({words}))
```"""
_MOST_WORDS_CHARS = 200
"""Of a prompt that is shown as what to search for."""


def system(
    *,
    output_chars: int,
    sub_chars: int,
    reply_chars: int,
    at_once: int,
    recursive: bool,
    sees_figures: bool = False,
    sub_sees: bool = False,
    tools: Sequence[Mapping[str, Any]] = (),
    extra: str = "",
) -> str:
    """Return the system message of a run.

    Parameters
    ----------
    output_chars
        What is shown of an iteration's outputs.
    sub_chars
        What a sub-call takes: the sub-model's real window, in characters.
    reply_chars
        What its reply may have.
    at_once
        How many sub-calls run at the same time.
    recursive
        Whether `rlm_query` starts a run of its own; where it is a plain call, it is not mentioned.
    sees_figures
        Whether the model is shown what cells draw.
    sub_sees
        Whether the model that answers sub-calls is known to see images.
    tools
        Functions of the user's, each as `Tool.spec`.
    extra
        A paragraph of the user's.
    """
    text = _SYSTEM.format(
        output_chars=output_chars,
        sub_chars=sub_chars,
        reply_chars=reply_chars,
        at_once=at_once,
        recursion=_RECURSION if recursive else "",
        images=_IMAGES if sub_sees else "",
        figures=_FIGURES if sees_figures else "",
    ) + tool_list(tools)
    return f"{text}\n{extra}\n" if extra else text


def opening(
    prompt: str,
    context: ContextInfo,
    *,
    max_iterations: int,
    left: Sequence[str] = (),
    form: str = "",
    files: Sequence[Mapping[str, Any]] = (),
    history: int = 0,
    earlier: Sequence[ContextInfo] = (),
    restarted: str = "",
    is_question: bool = True,
) -> str:
    """Return the first user message: the prompt between tags, what `context` is, and what may be used.

    Parameters
    ----------
    left
        What is left of the limits, such as `1,000 sub-calls`.
    form
        Of the value that FINAL takes (`types.json_form.form`), where that is checked.
    files
        That the run is to make, each with its `name` and `description`.
    history
        How many prompts were answered in this kernel before; they stand in `history`.
    earlier
        The contexts that it was given before `context`.
    restarted
        It died since, and was started again: what that means for its variables.
    is_question
        Whether the prompt says what is asked, and not only where that stands.
    """
    lines, access = _about(context)
    if earlier:
        lines.append(_earlier(context, earlier))
    if history:
        lines.append(_answered(history, restarted))
    lines += ["", f"<prompt>\n{prompt}\n</prompt>"]
    if form:
        lines += ["", f"FINAL takes a value of this form, and nothing else:\n<form>\n{form}\n</form>"]
    if files:
        lines += [
            "",
            _FILES,
            *(f"- {one['name']}" + f": {one['description']}" * bool(one["description"]) for one in files),
        ]
    lines += ["", f"You have {max_iterations} iterations; each reply is one."]
    if left:
        lines[-1] += f" Left: {', '.join(left)}."
    lines.append(_first_block(context, access, prompt if is_question else ""))
    return "\n".join(lines)


def _first_block(context: ContextInfo, access: str | None, question: str) -> str:
    """Return what is said last: which block to write, and code that may be copied, where some is good for any question.

    Parameters
    ----------
    access
        Code that gets at the context.
    question
        Whose words may be searched for.
    """
    if context.type_name == "none":
        return "Write the first ```repl block: code that works out the answer and prints it."
    asked = (
        "Write the first ```repl block: code that goes through all of `context` and prints the answer, or what "
        "leads to it."
    )
    if access is not None:
        return f"{asked} It may begin with\n```repl\n{access}\n```"
    if PROSE in context.details:
        words = " ".join(question.split())
        shown = words if 0 < len(words) <= _MOST_WORDS_CHARS else "WORD ANOTHER WORD"
        return asked + _SEARCH.format(words=json.dumps(shown, ensure_ascii=False))
    return asked


def _answered(history: int, restarted: str) -> str:
    """Return what is said of the prompts before; parameters as for `opening`."""
    variables = f"it died and was started again{restarted}" if restarted else "its variables are still there"
    said = (
        "`history_0` what was said over it"
        if history == 1
        else f"`history_0` to `history_{history - 1}` are what was said over each"
    )
    return (
        f"This kernel has answered {history} prompt{'s' if history > 1 else ''} before: {variables}, `history` is a "
        f"list of those prompts and answers, and {said}, as chat messages."
    )


def _earlier(context: ContextInfo, earlier: Sequence[ContextInfo]) -> str:
    """Return what is said of the contexts before."""
    listed = [f"`context_{number}` ({info.type_name}: {info.size})" for number, info in enumerate(earlier)]
    shown = listed if len(listed) <= _MOST_CONTEXTS else [*listed[:2], "…", *listed[-2:]]
    newest = "" if context.type_name == "none" else f" `context` is the newest, `context_{len(earlier)}`."
    return f"Earlier contexts are there, too: {', '.join(shown)}.{newest}"


def _about(context: ContextInfo) -> tuple[list[str], str | None]:
    """Return what is said of a context, and the code that gets at it."""
    if context.type_name == "none":
        return ["There is no context this time: `context` is empty. Work it out by code, or with llm_query."], None
    article = "an" if context.type_name[:1] in "aeioAEIOU" else "a"
    loaded = "" if context.type_name in {"str", "bytes"} else " It is loaded already: there is no file to open."
    details, access = without_code(context.details)
    access = access or _ACCESS.get(context.type_name)
    lines = [f"`context` is {article} {context.type_name}: {context.size}.{loaded}", *details]
    if context.beginning:
        shown = "This is all of it:" if is_whole(context) else "It begins with:"
        tag = "beginning"
        while f"{tag}>" in context.beginning:  # a text must not seem to end before it does
            tag += "_"
        lines += [shown, f"<{tag}>\n{context.beginning}\n</{tag}>"]
    return lines, access


def surroundings(variables: Sequence[tuple[str, str, str]]) -> str:
    """Return what the model is told of the kernel; stands above the prompt.

    Parameters
    ----------
    variables
        Name, type and size of each.
    """
    lines = [f"- {name}: {kind}" + (f" [{size}]" if size else "") for name, kind, size in variables]
    more = len(lines) - _MOST_VARIABLES
    if more > 0:
        lines[_MOST_VARIABLES:] = [f"- and {more:,} more: SHOW_VARS() lists all"]
    there = "The variables there:\n" + "\n".join(lines) if lines else "It has no variables yet."
    return f"{_SURROUNDINGS} {there}\n\n"


def sandboxed(folders: Iterable[tuple[Path, bool]]) -> str:
    """Return what the model has to know of its sandbox, as a paragraph that stands above the prompt.

    Parameters
    ----------
    folders
        What is shown of the user's files, and whether it may be changed.
    """
    named = [f"{path} ({'may be changed' if changed else 'read-only'})" for path, changed in folders]
    files = f"only these of the user's files: {', '.join(named)}" if named else "none of the user's files"
    return f"Your kernel is sandboxed: it has no network and shows {files}. It can write to /tmp.\n\n"
