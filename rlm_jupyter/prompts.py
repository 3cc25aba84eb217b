"""The prompt, and the conversation: both derived from the record, byte-stable and append-only.

What the model is told follows the paper's findings (arXiv 2512.24601, appendix): the size of the context,
what a sub-call takes, look before you answer, few large sub-calls, how to end. The text never holds a
clock, an id or an address, so that a provider's cache hits from one iteration to the next; it alternates,
begins with the one system message and ends with a user message, as every server accepts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlm_jupyter.tokens import estimate_tokens
from rlm_jupyter.types import ContextInfo, Message, Variable

if TYPE_CHECKING:
    from rlm_jupyter.kernel.snapshots import Restored
    from rlm_jupyter.trajectory import Iteration, Trajectory

_SYSTEM = """\
You answer a question about a text, or data, that may be far longer than you can read: it is the variable `context` \
in a Jupyter kernel, and you work on it by writing Python. Each of your replies is one code block, with \
a short sentence before it if you like:
```repl
{probe}
```

The block is executed in the kernel and you get its outputs in the next message. Stop after the block: never write \
an output yourself, and do not answer before you have seen one. The kernel keeps your variables and imports; import \
what you use. It is a real Jupyter kernel: the last expression of a block is shown, `!shell` and %magics work, so does \
top-level `await`. Outputs over {output_chars:,} characters are cut in the middle and kept whole in a variable that is \
named then.

What is there:
- `context`: the text, or the data, that the question is about.
- `llm_query(prompt)`: asks a language model that reads the prompt and nothing else, and returns its reply as a str. \
It takes up to about {sub_chars:,} characters, so put the question and the passage into the prompt: \
llm_query(f"YOUR QUESTION\\n\\n{{passage}}").
- `llm_query_batched(prompts)`: the same for a list of prompts, all at once; returns the replies in order.
{recursion}\
- `SHOW_VARS()`: the variables that you have.
- `FINAL(value)`: ends the work; the value is the answer: text, a number, a list, a dict, any expression. \
`FINAL_VAR("name")` ends it with the content of that variable.

How to work:
- Look at the beginning of `context` first, to learn how it is built. Then search or split it by code: loosely \
first (lower case, parts of words), exactly later. Look at all of it before you conclude that something is missing, \
or that what you found is all there is.
- What code can decide (find, count, sort, compute), let code decide.
- What needs reading (meaning, kinds, opinions, summaries) and is more than you have seen whole, give to \
`llm_query_batched`: leave out repetitions, then a few large prompts, each with many items or a long passage up to \
the size above (one is fine if all fits), rather than many tiny ones. Say how borderline cases count, ask for short \
replies in a form that code can read, check that they are complete, and put them together by code.
- If a block fails, read the error and write a different one.
- When you have seen or checked what you need, end with a block that holds nothing but FINAL, as in
```repl
FINAL(total)
```
The answer is what the question asks for, complete and in the form it asks for. Where the question leaves something \
open, decide, and say so in the answer.
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
"""The example of a first block, by the context's type: models copy it, so it must fit."""

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
BLIND = (
    "You answered before any code looked at `context`. Look at it first, with a block such as\n"
    "```repl\n{probe}\n```\nIf you are sure all the same, send the same FINAL again."
)
UNSEEN = (
    "You wrote FINAL in the same reply as code, before you saw what the code printed, so it does not count yet. "
    "Look at the outputs above; if they confirm it, send FINAL again in a block of its own."
)
NUDGE = (
    "You were about to send the same reply again, which would change nothing. Do something else: look at another part, "
    "or search in another way."
)
NOT_READY = (
    'answer["ready"] is True, but no cell of yours says so plainly, so it does not count: write '
    'answer["ready"] = True in the cell itself, or end with FINAL.'
)
BARE = (
    "The model that you ask reads this prompt and nothing else, not `context`, and there is only the question in it. "
    "Find the passages by code and put them into the prompt, as in "
    'llm_query(f"QUESTION\\n\\n{passage}"); or let code decide'
)
STAND_INS = "What your cell put in place of {names} was left out: the real thing is there already, use it as it is."
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


def system(type_name: str, *, output_chars: int, sub_chars: int, recursive: bool) -> str:
    """The system message of a run.

    Parameters
    ----------
    type_name
        Of the context, as `ContextInfo` has it.
    output_chars
        What is shown of an iteration's outputs.
    sub_chars
        What a sub-call takes: the sub-model's real window, in characters.
    recursive
        Whether `rlm_query` starts a run of its own; where it is a plain call, it is not mentioned.
    """
    return _SYSTEM.format(
        probe=_probe(type_name),
        output_chars=output_chars,
        sub_chars=sub_chars,
        recursion=_RECURSION if recursive else "",
    )


def blind(type_name: str) -> str:
    """What a model is told that answers before it has looked at a context of this type, and how to look."""
    return BLIND.format(probe=_probe(type_name))


def look_first(type_name: str) -> str:
    """What a model is told that only talks before it has looked at a context of this type, and how to look."""
    return LOOK_FIRST.format(probe=_probe(type_name))


def _probe(type_name: str) -> str:
    return _PROBES.get(type_name, "print(type(context))\nprint(repr(context)[:1000])")


def opening(
    prompt: str,
    context: ContextInfo,
    *,
    max_iterations: int,
    left: Sequence[str] = (),
    history: int = 0,
    restarted: str = "",
) -> str:
    """The first user message: the prompt between tags, what `context` is, and what may be used.

    Parameters
    ----------
    left
        What is left of the limits, such as `1,000 sub-calls`.
    history
        How many prompts were answered in this kernel before; they stand in `history`.
    restarted
        It died since, and was started again: what that means for its variables.
    """
    lines = [f"<prompt>\n{prompt}\n</prompt>", ""]
    if context.type_name == "none":
        lines.append("There is no context this time: `context` is empty. Work it out by code, or with llm_query.")
    else:
        lines.append(f"`context` is a {context.type_name}: {context.size}.")
        lines += context.details
    if history:
        variables = f"it died and was started again{restarted}" if restarted else "its variables are still there"
        lines.append(
            f"This kernel has answered {history} prompt{'s' if history > 1 else ''} before: {variables}, "
            "and `history` is a list of those prompts and answers."
        )
    lines += ["", f"You have {max_iterations} iterations; each of your replies is one."]
    if left:
        lines[-1] += f" Left: {', '.join(left)}."
    first = "the ```repl block that looks at how `context` begins" if context.type_name != "none" else "a ```repl block"
    lines.append(f"Iteration 1: write {first}.")
    return "\n".join(lines)


def revived(what: str, before: Sequence[Variable], now: Sequence[Variable], restored: Restored | None) -> str:
    """What the model is told when its kernel has died and was started again.

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
    """What became of the variables of a kernel that died between two prompts, after a sentence that says so.

    Parameters are those of `revived`.
    """
    back = "" if restored is None else back_names(now, restored)
    if not back:
        return ", so its variables are gone"
    return f"; these are back {back} (gone: {gone_names(before, now, restored) or 'none'})"


def back_names(now: Sequence[Variable], restored: Restored) -> str:
    """The variables that a snapshot has brought back, and as of when; empty where there are none."""
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
    """The variables that are gone, with the reason where it is known; empty where there are none."""
    back = {variable.name for variable in now}
    reasons = {} if restored is None else restored.reasons
    gone = [variable.name for variable in before if variable.name not in back]
    gone += [name for name in reasons if name not in back and name not in gone]
    return ", ".join(f"{name} ({reasons[name]})" if name in reasons else name for name in gone)


def status(iteration: int, max_iterations: int, left: Sequence[str]) -> str:
    """The line that ends an iteration's outputs: which comes next, and what is left."""
    line = f"Iteration {iteration + 1} of {max_iterations}."
    if iteration + 1 == max_iterations:
        line += " This is the last one: end with FINAL."
    elif iteration == max_iterations:
        line = "No iteration is left."
    return f"{line} Left: {', '.join(left)}." if left else line


class Conversation:
    """The messages of a run, derived from its record; what was derived once is not derived again."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._tokens = 0
        self._elided = 0

    def messages(self, trajectory: Trajectory) -> list[Message]:
        """The conversation that the root model reads next."""
        if trajectory.elided_through != self._elided:
            self._messages, self._tokens, self._elided = [], 0, trajectory.elided_through
        if not self._messages:
            started = trajectory.started
            self._add(Message("system", started.system), Message("user", started.opening))
        elif len(self._messages) > 2:
            # a notice may have come after the last iteration's outputs
            self._remove_last()
        for iteration in trajectory.iterations[len(self._messages) // 2 - 1 :]:
            elided = iteration.index <= trajectory.elided_through
            self._add(
                Message("assistant", read_part(iteration)),
                Message("user", follow_up(iteration, elided=elided)),
            )
        return self._messages.copy()

    def tokens(self, trajectory: Trajectory) -> int:
        """About how many tokens it has."""
        self.messages(trajectory)
        return self._tokens

    def _remove_last(self) -> None:
        for message in self._messages[-2:]:
            self._tokens -= estimate_tokens(message.content)
        del self._messages[-2:]

    def _add(self, *added: Message) -> None:
        for message in added:
            self._messages.append(message)
            self._tokens += estimate_tokens(message.content)


def messages(trajectory: Trajectory) -> list[Message]:
    """The conversation that the root model reads next, from a record alone."""
    return Conversation().messages(trajectory)


def read_part(iteration: Iteration) -> str:
    """What of a reply counts; never empty, which some servers refuse."""
    reply = iteration.reply
    return reply.text[: reply.read].rstrip() or "(no reply)"


def follow_up(iteration: Iteration, *, elided: bool) -> str:
    """What the model is told after an iteration."""
    shown = "[The outputs of this iteration are left out now, to make room; your variables are still there.]"
    parts = [shown if elided else iteration.shown, *iteration.notices]
    return "\n\n".join(part for part in parts if part) or "(no output)"
