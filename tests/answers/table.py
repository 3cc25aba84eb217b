"""The table of how a run ends, as data: what is in a reply, and what follows.

Every row is played after `LOOK`, so that nothing is answered before anything was looked at, unless it says
otherwise; where the run goes on, the model says `GO_ON` next and so ends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rlm_jupyter.types.values import Reply


def block(*lines: str, tag: str = "repl") -> str:
    """A reply with one block."""
    return "I run this.\n" + fence(*lines, tag=tag)


def fence(*lines: str, tag: str = "repl") -> str:
    """A block alone."""
    return f"```{tag}\n" + "\n".join(lines) + "\n```"


LOOK = block("print(len(context))")
GO_ON = block("FINAL(f'next: {context[:9]}')")
NEXT = "next: some text"
"""The answer of a run that went on."""

NO_BLOCK = "There was no code block"
CUT_OFF = "was cut off"
UNCLOSED = "is not closed"
NOTHING_SHOWN = "your code has shown nothing yet"
EXITED = "`exit()` ended this cell, not the kernel"
BLIND = "before any code looked at `context`. Look at it first, with a block such as\n```repl"
LOOK_FIRST = "no code has looked at `context` yet. Look at it, with a block such as\n```repl"
UNSEEN = "it does not count yet"
ECHO = "What you gave as the answer is the question itself"


@dataclass(frozen=True, slots=True)
class Row:
    """What is in a reply, and what follows."""

    id: str
    replies: tuple[str | Reply, ...]
    """The reply, and where it matters those after it."""
    answer: str | None = None
    """`None`: the next iteration."""
    told: tuple[str, ...] = ()
    """What the model then reads."""
    cells: tuple[str, ...] | None = None
    """What became of the last reply's cells."""
    before: tuple[str, ...] = (LOOK,)
    limits: Mapping[str, Any] = field(default_factory=dict)


def ends(row_id: str, answer: str, *replies: str | Reply, **more: Any) -> Row:
    """These replies end the run."""
    return Row(row_id, replies, answer, **more)


def goes_on(row_id: str, told: str | tuple[str, ...], *replies: str | Reply, **more: Any) -> Row:
    """These replies don't end the run."""
    return Row(row_id, replies, None, (told,) if isinstance(told, str) else told, **more)


HAVE_X = (block("x = 'value'", "print('set')"),)
HAVE_ROWS = (block("rows = ['first', 'second']", "B = 'wrong'", "name = 'B'", "print('set')"),)
PLAN = "My plan:\nFINAL(x) will be returned later (after checks)\n"
GUESS = fence("print('seen')") + "\nFINAL(guess)"
GUESS_AGAIN = fence("print('seen too')") + "\nFINAL(guess)"

TABLE: dict[str, tuple[Row, ...]] = {
    "repl blocks": (
        ends("FINAL recorded", "999", block("FINAL(len(context))"), cells=("ok",)),
        ends("in order", "2", fence("n = 1") + "\n\n" + fence("n += 1") + "\n" + fence("FINAL(n)"), cells=("ok",) * 3),
        ends("the rest does not run", "n", fence("n = 'n'; FINAL(n)") + "\n" + fence("1/0"), cells=("ok", "skipped")),
        ends("one reply ends it after many", "2", block("n = 0"), block("n += 1"), block("n += 1; FINAL(n)")),
        goes_on("nothing recorded", "Outputs:\nseen", block("print('seen')"), cells=("ok",)),
        goes_on(
            "stop at the first that fails",
            ("ZeroDivisionError", "2 more blocks were not executed"),
            fence("1/0") + "\n" + fence("FINAL('skipped')") + "\n" + fence("FINAL('skipped')"),
            cells=("error", "skipped", "skipped"),
        ),
        goes_on(
            "python beside repl is prose",
            "Outputs:\nseen",
            fence("print('seen')") + "\n" + fence("FINAL('not run')", tag="python"),
            cells=("ok",),
        ),
        goes_on("an empty block is none", NO_BLOCK, fence("")),
    ),
    "a cell that exits": (
        goes_on("exit()", (EXITED, "Outputs:\nseen"), block("print('seen')", "exit()", "1/0"), cells=("ok",)),
        goes_on("quit()", EXITED, block("quit()", "1/0"), cells=("ok",)),
        goes_on("a bare exit", EXITED, block("exit"), cells=("ok",)),
        goes_on("sys.exit()", EXITED, block("import sys", "sys.exit()", "1/0"), cells=("ok",)),
        goes_on("sys.exit(0), in a function", EXITED, block("def main():", "    raise SystemExit(0)", "main()", "1/0")),
        goes_on("within an await", EXITED, block("import asyncio", "await asyncio.sleep(0)", "exit()", "1/0")),
        goes_on("under a magic", EXITED, block("%%time", "exit()", "1/0"), cells=("ok",)),
        goes_on("with an error code", "SystemExit: 2", block("import sys", "sys.exit(2)"), cells=("error",)),
        goes_on("with a message", "SystemExit: no data", block("exit('no data')", "1/0"), cells=("error",)),
        goes_on(
            "the blocks after it don't run",
            (EXITED, "Outputs:\nseen", "1 more block was not executed"),
            fence("print('seen')\nexit()") + "\n" + fence("FINAL('no')"),
            cells=("ok", "skipped"),
        ),
        goes_on("nor counts FINAL in prose after it", EXITED, fence("exit()") + "\nFINAL_VAR(x)", before=HAVE_X),
        goes_on("FINAL below it", EXITED, block("exit()", "FINAL('no')"), cells=("ok",)),
        ends("FINAL above it", "yes", block("FINAL('yes')", "exit()"), cells=("ok",)),
        ends("the kernel goes on", "1", block("kept = 1", "exit()"), block("FINAL(kept)")),
    ),
    "only python or py blocks": (
        ends("python", "42", block("FINAL(6*7)", tag="python")),
        ends("py", "42", block("FINAL(6*7)", tag="py")),
        ends("capitals", "42", block("FINAL(6*7)", tag="Python")),
        ends("in order", "2", fence("n = 1", tag="py") + "\n" + fence("FINAL(n + 1)", tag="python")),
        goes_on("the first fails", "1 more block", fence("1/0", tag="py") + "\n" + fence("FINAL('no')", tag="py")),
        goes_on("no tag", NO_BLOCK, block("FINAL('not run')", tag="")),
        goes_on("another tag", NO_BLOCK, block("FINAL('not run')", tag="js")),
    ),
    "FINAL(expr) in a block": (
        ends("text", "hi", block('FINAL("hi")')),
        ends("arithmetic", "42", block("FINAL(6*7)")),
        ends("a date is arithmetic", "2001", block("FINAL(2024-11-12)")),
        ends("a name", "value", block("FINAL(x)"), before=HAVE_X),
        ends("an f-string", "a value", block("FINAL(f'a {x}')"), before=HAVE_X),
        ends("several lines", "one\ntwo", block('FINAL("""one\ntwo""")')),
        ends("the first of two", "first", block("FINAL('first')", "FINAL('second')")),
        ends("read at once", "[1]", block("y = [1]", "FINAL(y)", "y.append(2)")),
        ends("after a refused one", "ok", block("try: FINAL(None)", "except TypeError: FINAL('ok')")),
        goes_on("an undefined name", ("NameError", "Variables there are: x"), block("FINAL(y)"), before=HAVE_X),
        goes_on("nothing", "FINAL takes one value", block("FINAL()")),
        goes_on("two values", "FINAL takes one value", block("FINAL(1, 2)")),
        goes_on("None", "the value is None", block("FINAL(None)")),
        goes_on("an empty text", "the text is empty", block('FINAL("")')),
        goes_on("white space only", "the text is empty", block("FINAL(' \\n ')")),
        goes_on("a text that came out empty", "the text is empty", block("FINAL(context[:0])")),
        ends("zero", "0", block("FINAL(context.count('no such words'))")),
        ends("no items", "[]", block("FINAL([word for word in context.split() if word == 'none'])")),
        goes_on("a function", "is no answer", block("FINAL(print)")),
        goes_on("a refusal swallowed", "the value is None", block("try: FINAL(None)", "except TypeError: pass")),
        goes_on("a comment", "Outputs:", block("# FINAL('no')\n1")),
        goes_on("a string", "Outputs:", block("s = '''\nFINAL('no')\n'''")),
        goes_on("a branch not taken", "Outputs:", block("if not context:\n    FINAL('no')")),
        goes_on("a function not called", "Outputs:", block("def done():\n    FINAL('no')")),
    ),
    "a block that is no Python because of FINAL": (
        ends("brackets", "the answer (with parens)", block("FINAL(the answer (with parens))")),
        ends("an apostrophe", "It's (really) fine", block("FINAL(It's (really) fine)")),
        ends("code before it", "the value", block("y = 1", "FINAL(the value)")),
        ends("in a branch", "yes it is", block("if context:\n    FINAL(yes it is)\nelse:\n    FINAL(no it isn't)")),
        ends("a blank before the bracket", "the answer", block("FINAL (the answer)")),
        ends("quotes inside", 'the "best" one', block('FINAL(the "best" one)')),
        goes_on("broken elsewhere too", "SyntaxError", block("y = = 1", "FINAL(the answer)")),
        goes_on("in a cell magic", "Outputs:", block("%%writefile /dev/null\nFINAL(the answer)")),
        goes_on("in a string", "SyntaxError", block("s = '''\nFINAL(the answer)\n'''", "y = = 1")),
    ),
    "FINAL_VAR in a block": (
        ends("bare", "value", block("FINAL_VAR(x)"), before=HAVE_X),
        ends("single quotes", "value", block("FINAL_VAR('x')"), before=HAVE_X),
        ends("double quotes", "value", block('FINAL_VAR("x")'), before=HAVE_X),
        ends("of this cell", "value", block("y = 'value'", "FINAL_VAR(y)")),
        ends("text that names a variable", "B", block("FINAL_VAR(name)"), before=HAVE_ROWS),
        ends("an expression", "second", block("FINAL_VAR(rows[1])"), before=HAVE_ROWS),
        ends("the context", "some text" * 111, block("FINAL_VAR('context')")),
        goes_on("missing", ("no variable 'y'", "Variables: x"), block("FINAL_VAR('y')"), before=HAVE_X),
        goes_on("missing, bare", ("NameError", "Variables there are: x"), block("FINAL_VAR(y)"), before=HAVE_X),
        goes_on("nothing", "FINAL_VAR takes the name", block("FINAL_VAR()")),
        goes_on("an empty text", "the text is empty", block("y = ''", "FINAL_VAR(y)")),
    ),
    "prose only, FINAL(text) at a line start": (
        ends("a date is text", "2024-11-12", "FINAL(2024-11-12)"),
        ends("arithmetic is text", "6*7", "FINAL(6*7)"),
        ends("double quotes", "quoted", 'FINAL("quoted")'),
        ends("single quotes", "quoted", "FINAL('quoted')"),
        ends("curly quotes", "quoted", "FINAL(“quoted”)"),
        ends("brackets", "the answer (with (nested) parens)", "FINAL(the answer (with (nested) parens))"),
        ends("after a sentence", "Paris", "I know it now.\n\nFINAL(Paris)"),
        ends("white space before", "Paris", "  FINAL( Paris )"),
        ends("several lines", "one\ntwo", "FINAL(one\ntwo)"),
        ends("a name there is", "value", "FINAL(x)", before=HAVE_X),
        ends("a quoted name is text", "x", "FINAL('x')", before=HAVE_X),
        ends("a name there isn't", "y", "FINAL(y)", before=HAVE_X),
        ends("the first of two", "first", "FINAL(first)\nFINAL(second)"),
        ends("bold", "42", "**FINAL(42)**"),
        ends("bold, after a sentence", "42", "That is all of them.\n\n**FINAL(42)**"),
        ends("inline code", "42", "`FINAL(42)`"),
        ends("a full stop after it", "42", "FINAL(42)."),
        ends("a blank before the bracket", "q", "FINAL ( 'q' )"),
        goes_on("nothing in it", "the text is empty", "FINAL()"),
        goes_on("an empty text", "the text is empty", 'FINAL("")'),
        goes_on("white space only", "the text is empty", "FINAL(  \n  )"),
        goes_on("a plan", NO_BLOCK, "My plan:\nFINAL(x) will be returned later (after checks)", before=HAVE_X),
        goes_on("no closing bracket", NO_BLOCK, "FINAL(Paris"),
        goes_on("a name that is no answer", "is no answer", "FINAL(f)", before=(block("def f(): pass"),)),
    ),
    "prose only, FINAL_VAR(name)": (
        ends("bare", "value", "FINAL_VAR(x)", before=HAVE_X),
        ends("quoted", "value", 'FINAL_VAR("x")', before=HAVE_X),
        ends("before a FINAL", "value", "FINAL(other)\nFINAL_VAR(x)", before=HAVE_X),
        ends("an expression", "second", "FINAL_VAR(rows[1])", before=HAVE_ROWS),
        ends("text that names a variable", "B", "FINAL_VAR(name)", before=HAVE_ROWS),
        goes_on("missing", ("no variable 'y'", "Variables: x"), "FINAL_VAR(y)", before=HAVE_X),
        goes_on("missing, beside a FINAL", "no variable 'y'", "FINAL_VAR(y)\nFINAL(other)"),
    ),
    "blocks, and FINAL_VAR(name) in prose after them": (
        ends("all succeed", "new", fence("y = 'new'") + "\nFINAL_VAR(y)", cells=("ok", "ok")),
        ends("two succeed", "2", fence("y = 1") + "\n" + fence("y += 1") + '\nFINAL_VAR("y")'),
        ends("recorded in the block", "in", fence("y = 'after'; FINAL('in')") + "\nFINAL_VAR(y)", cells=("ok",)),
        goes_on("one fails", "ZeroDivisionError", fence("y = 'new'\n1/0") + "\nFINAL_VAR(y)", cells=("error",)),
        goes_on("missing", "no variable 'gone'", fence("y = 1") + "\nFINAL_VAR(gone)", cells=("ok", "error")),
        goes_on("before them", "Outputs:", "FINAL_VAR(x)\n" + fence("1"), before=HAVE_X, cells=("ok",)),
        goes_on("between them", "Outputs", fence("1") + "\nFINAL_VAR(x)\n" + fence("1 + 1"), before=HAVE_X),
    ),
    "blocks, and a literal FINAL(text) in prose": (
        goes_on("asked", (UNSEEN, "Outputs:\nseen"), GUESS, cells=("ok",)),
        ends("said again", "guess", GUESS, "FINAL(guess)"),
        ends("said again after another block", "guess", GUESS, GUESS_AGAIN),
        ends("said again in a block", "guess", GUESS, block("FINAL('guess')")),
        ends("another is said", "sure", GUESS, "FINAL(sure)"),
        ends("no iteration is left", "guess", GUESS, limits={"max_iterations": 2}),
        ends("recorded in the block", "in", fence("FINAL('in')") + "\nFINAL(guess)"),
        ends("quotes around the whole", "guess", GUESS.replace("guess", "'guess'"), "FINAL('guess')"),
        ends("a name there is", "new", fence("y = 'new'") + "\nFINAL(y)", cells=("ok", "ok")),
        ends("a name, and no iteration left", "new", fence("y = 'new'") + "\nFINAL(y)", limits={"max_iterations": 2}),
        goes_on("another guess is asked about too", UNSEEN, GUESS, GUESS_AGAIN.replace("guess", "another")),
        goes_on("a block fails", "ZeroDivisionError", fence("1/0") + "\nFINAL(guess)", cells=("error",)),
        goes_on("before them", "Outputs:", "FINAL(guess)\n" + fence("1"), cells=("ok",)),
        goes_on("a plan before them", "Outputs:\nseen", PLAN + fence("print('seen')"), before=HAVE_X, cells=("ok",)),
        goes_on("a name before them", "Outputs:", "FINAL(x)\n" + fence("1"), before=HAVE_X, cells=("ok",)),
        goes_on("a plan after them", "Outputs:", fence("1") + "\n" + PLAN, before=HAVE_X, cells=("ok",)),
        ends("a name, in bold", "value", fence("1") + "\n**FINAL(x)**", before=HAVE_X, cells=("ok", "ok")),
        goes_on("nothing in it", "the text is empty", fence("1") + "\nFINAL()", cells=("ok", "error")),
    ),
    "the question itself, which is: What is it?": (
        goes_on("typed", ECHO, block("FINAL('What is it?')"), cells=("ok",)),
        goes_on("of a variable", ECHO, block("x = 'What is it?'", "FINAL(x)"), cells=("ok",)),
        goes_on("in other letters, and quotes", ECHO, block("FINAL('“what  is it” ')")),
        goes_on("in prose", ECHO, "FINAL(What is it?)", cells=("ok",)),
        goes_on("below code that shows something", ECHO, block("print('seen')", "FINAL('What is it?')")),
        ends("said again", "What is it?", block("FINAL('What is it?')"), block("FINAL('What is it?')", "pass")),
        ends("the answer behind it", "What is it? Blue", block("FINAL('What is it? Blue')")),
        ends("a part of it", "What is", block("FINAL('What is')")),
    ),
    "in the middle of a sentence": (
        goes_on("announced", NO_BLOCK, "I will call FINAL(x) later.", before=HAVE_X),
        goes_on("bold", NO_BLOCK, "**FINAL(42)** it is"),
        goes_on("code", NO_BLOCK, "`FINAL(42)` ends it"),
        goes_on("quoted", NO_BLOCK, "> FINAL(42)"),
        goes_on("listed", NO_BLOCK, "- FINAL(42)"),
        goes_on("after a label", NO_BLOCK, "Answer: FINAL(42)"),
        goes_on("lower case", NO_BLOCK, "final(42)"),
        goes_on("a longer word", NO_BLOCK, "FINALLY(42)\nFINAL_ANSWER(42)"),
        goes_on("FINAL_VAR", NO_BLOCK, "Next I say FINAL_VAR(x).", before=HAVE_X),
        goes_on("beside a block", "Outputs:", fence("1") + "\nNow FINAL(42) would do.", cells=("ok",)),
        goes_on("in a fence that does not run", NO_BLOCK, "```text\nFINAL(42)\n```"),
    ),
    "no block, no FINAL": (
        goes_on("words", NO_BLOCK, "Let me think about it."),
        goes_on("twice", NO_BLOCK, "Let me think.", "Let me think more."),
    ),
    "an unclosed fence": (
        goes_on("not run", UNCLOSED, "```repl\nFINAL('cut')", cells=()),
        goes_on("python", UNCLOSED, "```python\nFINAL('cut')", cells=()),
        goes_on("after one that is closed", UNCLOSED, fence("y = 1") + "\n```repl\nFINAL('cut')", cells=("ok",)),
        goes_on("said so once only", CUT_OFF, Reply("```repl\nFINAL('cut", "scripted/relay", finish="length")),
    ),
    "a fence inside a Python string": (
        ends("of a block", "```\ncode\n```", block('s = """```\ncode\n```"""', "FINAL(s)"), cells=("ok",)),
        ends("at line starts", "a\n```\nb\n", block('s = """a\n```\nb\n"""', "FINAL(s)")),
        ends("in prose", "see\n```\ncode\n```", "FINAL(see\n```\ncode\n```)"),
    ),
    "answer dict": (
        ends("content, then ready", "done", block('answer["content"] = "done"', 'answer["ready"] = True')),
        ends("ready, then content", "done", block('answer["ready"] = True', 'answer["content"] = "done"')),
        ends("update", "done", block('answer.update(content="done", ready=True)')),
        ends("update with a dict", "done", block('answer.update({"content": "done", "ready": True})')),
        ends("merged", "done", block('answer |= {"content": "done", "ready": True}')),
        ends("bound anew", "done", block('answer = {"content": "done", "ready": True}')),
        ends("bound anew by dict()", "done", block('answer = dict(content="done", ready=True)')),
        ends("a draft made ready", "done", block('answer["content"] = "done"'), block('answer["ready"] = True')),
        ends("a number", "42", block('answer["content"] = 6*7', 'answer["ready"] = True')),
        ends("FINAL comes first", "said", block('answer = {"content": "no", "ready": True}', "FINAL('said')")),
        ends(
            "content later",
            "done",
            block('answer["ready"] = True'),
            block('answer["content"] = "done"'),
        ),
        goes_on("nothing in it", 'answer["content"] is empty', block('answer["ready"] = True')),
        goes_on("white space in it", 'answer["content"] is empty', block('answer.update(content=" ", ready=True)')),
        goes_on("a draft only", "Outputs:", block('answer["content"] = "done"')),
        goes_on("ready as text", "Outputs:", block('answer = {"content": "done", "ready": "False"}')),
        goes_on("ready as a number", "Outputs:", block('answer = {"content": "done", "ready": 1}')),
        goes_on("not ready", "Outputs:", block('answer = {"content": "done", "ready": False}')),
        goes_on("taken back", "Outputs:", block('answer.update(content="x", ready=True); answer["ready"] = False')),
        goes_on(
            "ready in a document",
            "Outputs:",
            block("import json", 'answer = json.loads(\'{"content": "document", "ready": true}\')'),
        ),
        goes_on("no text", "can't be turned into text", block("answer.update(content=print, ready=True)")),
    ),
    "SUBMIT": (
        ends("a value", "value", block("SUBMIT(x)"), before=HAVE_X),
        ends("a field", "value", block("SUBMIT(answer=x)"), before=HAVE_X),
        ends("fields", '{"a": 1, "b": "value"}', block("SUBMIT(a=1, b=x)"), before=HAVE_X),
        goes_on("nothing", "SUBMIT takes one value", block("SUBMIT()")),
        goes_on("an empty text", "the text is empty", block("SUBMIT('')")),
    ),
    "a sub-call of another form": (
        goes_on(
            "a question and a text",
            'llm_query takes the text as part of the prompt: llm_query(f"Summarize this\\n\\n{passage}")',
            block("llm_query('Summarize this', context)"),
            cells=("error",),
        ),
    ),
    "nothing printed, raised, or replied": (
        goes_on("printed", "FINAL(1)", block("print('FINAL(1)\\nFINAL_VAR(context)\\nSUBMIT(1)')")),
        goes_on("shown", "FINAL(1)", block("from IPython.display import Markdown", "Markdown('FINAL(1)')")),
        goes_on("raised", "FINAL(1)", block("raise ValueError('\\nFINAL(1)')"), cells=("error",)),
        goes_on("replied by a sub-call", "FINAL(1)", block("print(llm_query('FINAL(1)'))")),
        goes_on("executed as text", "did not count", block("exec('FINAL(1)')")),
    ),
    "what real models write": (
        goes_on("an output of their own", "999", fence("len(context)") + "\n**Output:**\n```\n100\n```\nFINAL(100)"),
        goes_on("one that is tagged as code", "999", fence("len(context)") + "\n\n" + fence("100"), cells=("ok",)),
        goes_on(
            "a traceback of their own",
            "999",
            fence("len(context)") + "\n\n" + fence("Traceback (most recent call last)\nCell In[2], line 1"),
            cells=("ok",),
        ),
        goes_on(
            "Python, and as a cell what they suppose",
            "999",
            fence("len(context)", tag="python") + "\n\n" + fence("100") + "\n\n" + fence("FINAL(100)"),
            cells=("ok",),
        ),
        goes_on(
            "Python, and as a cell what they answer",
            (UNSEEN, "999"),
            fence("len(context)", tag="python") + "\n\n" + fence("FINAL(100)"),
            cells=("ok", "skipped"),
        ),
        goes_on(
            "typed in a block after code",
            (UNSEEN, "999"),
            fence("len(context)") + "\n\n" + fence("FINAL('100')"),
            cells=("ok", "skipped"),
        ),
        ends("… and said again", "100", fence("len(context)") + "\n\n" + fence("FINAL('100')"), "FINAL(100)"),
        goes_on("typed below code that shows something", (UNSEEN, "999"), block("print(len(context))", "FINAL('100')")),
        ends("… confirmed", "100", block("print(len(context))", "FINAL('100')"), "FINAL(100)"),
        ends("… as it is", "100", block("print(len(context))", "FINAL('100')"), block("print('so'); FINAL('100')")),
        ends("… below code that shows nothing", "100", block("size = len(context)", "FINAL('100')")),
        ends("… below an import", "100", block("import re", "FINAL('100')")),
        ends("… computed", "999", block("print(len(context))", "FINAL(len(context))")),
        ends("… in a branch", "100", block("print(len(context))", "if context: FINAL('100')")),
        ends("… by a name", "100", block("print(len(context))", "guess = '100'", "FINAL(guess)")),
        ends(
            "… and no iteration is left",
            "100",
            block("print(len(context))", "FINAL('100')"),
            limits={"max_iterations": 2},
        ),
        goes_on(
            "code that begins like a heading", "1000", fence("output = 1") + "\n\n" + fence("# Output:", "output + 999")
        ),
        goes_on("a variable of that name", "998", fence("output = 998") + "\n\n" + fence("output")),
        ends("computed in a block after code", "999", fence("n = len(context)") + "\n\n" + fence("FINAL(n)")),
        goes_on("typed after an error", NOTHING_SHOWN, block("1/0"), "FINAL(1234)", before=(), cells=()),
        goes_on("typed after silence", NOTHING_SHOWN, block("x = 1"), "FINAL(1234)", before=(), cells=()),
        goes_on("mere talk, before anything was looked at", LOOK_FIRST, "The code is 1234.", before=(), cells=()),
        goes_on("blind in prose", BLIND, "FINAL(1234)", before=(), cells=()),
        goes_on("blind in a block", BLIND, block("FINAL('1234')"), before=(), cells=("skipped",)),
        ends("blind, said again", "1234", "FINAL(1234)", "FINAL(1234)", before=()),
        ends("blind in a block, said again", "1234", block("FINAL('1234')"), block("FINAL('1234')"), before=()),
        ends("blind, asked about once", "5678", "FINAL(1234)", block("FINAL('5678')"), before=()),
        ends("computed is not blind", "999", block("FINAL(len(context))"), before=()),
    ),
}
