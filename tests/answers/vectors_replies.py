"""Replies: the cells that are executed, were each of them to succeed, and the answer that the run then has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.answers.vectors import ENDS

FENCE = "```"
UNSEEN = "it does not count yet"
NO_BLOCK = "There was no code block"
UNCLOSED = "is not closed"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply says. The kernel knows `context` and `x = 'value'`."""

    id: str
    reply: str
    blocks: tuple[str, ...]
    """Sources, as they are executed."""
    ours: str | None
    """The answer; `None`: the run goes on."""
    peers: Mapping[str, str | None] = field(default_factory=dict)
    """As in `vectors`."""
    says: str = ""
    """Part of what the model then reads."""


def fence(*lines: str, tag: str = "repl", marks: str = FENCE) -> str:
    return "\n".join((marks + tag, *lines, marks)) + "\n"


R = Reading
LONG = "def f():\n    return 'deep'\nFINAL(f())"

# fmt: off
READINGS: tuple[Reading, ...] = (
    # -- which blocks run
    R("a repl block", fence("FINAL(6*7)"), ("FINAL(6*7)",), "42"),
    R("a python block", fence("FINAL(6*7)", tag="python"), ("FINAL(6*7)",), "42", {"official": None, "rlm-code": "42"}),
    R("a py block", fence("FINAL(6*7)", tag="py"), ("FINAL(6*7)",), "42"),
    R("a Python block", fence("FINAL(6*7)", tag="Python"), ("FINAL(6*7)",), "42", {"rlm-code": "42"}),
    R("a REPL block", fence("FINAL(6*7)", tag="REPL"), ("FINAL(6*7)",), "42"),
    R("a tag with more behind it", fence("FINAL(6*7)", tag="repl id=1"), ("FINAL(6*7)",), "42"),
    R("a blank before the tag", fence("FINAL(6*7)", tag=" repl"), ("FINAL(6*7)",), "42"),
    R("no tag", fence("FINAL(6*7)", tag=""), (), None, says=NO_BLOCK),
    R("another language", fence("FINAL(6*7)", tag="javascript"), (), None, says=NO_BLOCK),
    R("a tag that begins like ours", fence("FINAL(6*7)", tag="python3"), (), None, says=NO_BLOCK),
    R("a longer fence", fence("FINAL(6*7)", marks="````"), ("FINAL(6*7)",), "42"),
    R("a tilde fence", fence("FINAL(6*7)", marks="~~~"), ("FINAL(6*7)",), "42"),
    R("an indented fence", "  ```repl\n  y = 1\n  FINAL(y)\n  ```", ("y = 1\nFINAL(y)",), "1"),
    R("a fence after a sentence", "I look. ```repl\nFINAL(6*7)\n```", ("FINAL(6*7)",), "42"),
    R("carriage returns", "```repl\r\ny = 1\r\nFINAL(y)\r\n```\r\n", ("y = 1\nFINAL(y)",), "1"),
    R("no line break at the end", "```repl\nFINAL(6*7)\n```", ("FINAL(6*7)",), "42"),
    R("an empty block", fence(""), (), None, says=NO_BLOCK),
    R("inline code only", "Use ```FINAL(42)``` here.", (), None, says=NO_BLOCK),
    R("two blocks", fence("y = 1") + fence("FINAL(y)"), ("y = 1", "FINAL(y)"), "1"),
    R("two blocks, both with FINAL", fence("FINAL('a')") + fence("FINAL('b')"), ("FINAL('a')", "FINAL('b')"), "a"),
    R("python beside repl", fence("y = 1") + fence("FINAL(2)", tag="python"), ("y = 1",), None),
    R("two python blocks", fence("y = 1", tag="py") + fence("FINAL(y)", tag="python"), ("y = 1", "FINAL(y)"), "1"),
    R("a block in a longer fence", fence("```repl", "FINAL(1)", "```", tag="markdown", marks="````"), (), None),
    R("indented code is no block", "    FINAL = 3\n    y = 2", (), None, says=NO_BLOCK),
    R("several lines", fence(*LONG.split("\n")), (LONG,), "deep"),
    # -- fences in strings
    R("a fence in a string", fence('s = """', FENCE, '"""', "FINAL(len(s))"), ('s = """\n```\n"""\nFINAL(len(s))',), "5"),
    R("a block in a string", fence("s = '''", "```repl", "FINAL(1)", FENCE, "'''", "FINAL('mine')"),
      ("s = '''\n```repl\nFINAL(1)\n```\n'''\nFINAL('mine')",), "mine"),
    # -- cut off
    R("never closed", "```repl\nFINAL(42)", (), None, says=UNCLOSED),
    R("closed, then never closed", fence("y = 1") + "```repl\nFINAL(42)", ("y = 1",), None, says=UNCLOSED),
    R("closed by the wrong marks", "```repl\nFINAL(42)\n~~~", (), None, says=UNCLOSED),
    R("closed by too few marks", "````repl\nFINAL(42)\n```", (), None, says=UNCLOSED),
    # -- FINAL in a block that is no Python
    R("prose in FINAL", fence("FINAL(the answer (with parens))"), ("FINAL('the answer (with parens)')",),
      "the answer (with parens)", {"official-old": "the answer (with parens)"}),
    R("an apostrophe in FINAL", fence("FINAL(It's (really) fine)"), ('FINAL("It\'s (really) fine")',),
      "It's (really) fine"),
    R("prose on lines in FINAL", fence("FINAL(one line", "and two)"), ("FINAL('one line\\nand two')",), "one line\nand two"),
    R("a unit in FINAL", fence("y = 3", "FINAL(42 km)"), ("y = 3\nFINAL('42 km')",), "42 km"),
    R("a percentage in FINAL", fence("FINAL(42%)"), ("FINAL('42%')",), "42%"),
    R("a leading zero in FINAL", fence("FINAL(007)"), ("FINAL('007')",), "007"),
    R("a time in FINAL", fence("FINAL(12:30)"), ("FINAL('12:30')",), "12:30"),
    R("a date in FINAL is arithmetic", fence("FINAL(2024-11-12)"), ("FINAL(2024-11-12)",), "2001"),
    R("an amount in FINAL", fence("FINAL($1,200)"), ("FINAL('$1,200')",), "$1,200"),
    R("quotes and words in FINAL", fence('FINAL("Yes", said John)'), ("FINAL('\"Yes\", said John')",), '"Yes", said John'),
    R("JSON with a bracket in FINAL", fence('FINAL({"a": ":)"} or so on)'), ('FINAL(\'{"a": ":)"} or so on\')',),
      '{"a": ":)"} or so on'),
    R("prose in an indented FINAL", fence("if x:", "    FINAL(so it is)"), ("if x:\n    FINAL('so it is')",), "so it is"),
    R("prose in FINAL beside a magic", fence("%precision 2", "FINAL(so it is)"), ("%precision 2\nFINAL('so it is')",),
      "so it is"),
    R("prose that happens to be Python", fence("FINAL(it is so)"), ("FINAL(it is so)",), None, says="'it' is not defined"),
    R("broken otherwise", fence("y = = 1", "FINAL(so it is)"), ("y = = 1\nFINAL(so it is)",), None, says="SyntaxError"),
    # -- prose alone
    R("FINAL of prose", "FINAL(the answer)", (), "the answer", {"official": None, "official-old": "the answer"}),
    R("quotes around it come off", 'FINAL("the answer")', (), "the answer",
      {"official-old": '"the answer"', "rlm-code": "the answer"}),
    R("curly quotes around it come off", "FINAL(“the answer”)", (), "the answer"),
    R("quotes in it stay", 'FINAL("a" or "b")', (), '"a" or "b"'),
    R("a string with a bracket", 'FINAL("a ) b")', (), "a ) b", {"LA3D": '"a', "rlm-code": "a ) b"}),
    R("an apostrophe and a bracket", "FINAL('it's )')", (), "it's )"),
    R("a date is text", "FINAL(2024-11-12)", (), "2024-11-12"),
    R("arithmetic is text", "FINAL(6*7)", (), "6*7"),
    R("a name there is", "FINAL(x)", (), "value"),
    R("a quoted name", "FINAL('x')", (), "x"),
    R("a name there isn't", "FINAL(nobody)", (), "nobody"),
    R("nothing", "FINAL()", (), None, {"official-old": "", "rlm-code": "Task complete."}, "the text is empty"),
    R("a plan", "My plan:\nFINAL(x) will be returned later (after checks)", (), None, says=NO_BLOCK),
    R("a plan before a block", "FINAL(x) later (after checks)\n" + fence("1"), ("1",), None, says="Outputs:"),
    R("a blank before the bracket", "FINAL ( 'q' )", (), "q"),
    R("one in a block", fence("FINAL ( so it is )"), ("FINAL('so it is')",), "so it is"),
    R("bold", "**FINAL(42)**", (), "42"),
    R("inline code alone", "`FINAL(42)`", (), "42"),
    R("quoted line", "> FINAL(42)", (), None, says=NO_BLOCK),
    R("after a label", "Answer: FINAL(42)", (), None, says=NO_BLOCK),
    R("a fence in it", "FINAL(run:\n```python\nf(1)\n```\n)", (), "run:\n```python\nf(1)\n```"),
    R("a block in it", "FINAL(\n" + fence("FINAL(1)") + ")", (), "```repl\nFINAL(1)\n```"),
    R("after a sentence", "I know.\nFINAL(it)", (), "it"),
    R("in a sentence", "I say FINAL(it).", (), None, says=NO_BLOCK),
    R("FINAL_VAR", "FINAL_VAR(x)", (), "value"),
    R("FINAL_VAR quoted", "FINAL_VAR('x')", (), "value"),
    R("FINAL_VAR before FINAL", "FINAL(no)\nFINAL_VAR(x)", (), "value", {"rlm-code final_pattern": "no"}),
    R("FINAL_VAR of a call", "FINAL_VAR(x.upper())", (), "VALUE"),
    R("FINAL_VAR of two", "FINAL_VAR(x, len(x))", (), "('value', 5)"),
    R("FINAL_VAR with a comment", "FINAL_VAR(x.upper()  # loud\n)", (), "VALUE"),
    R("FINAL_VAR of nothing", "FINAL_VAR()", (), None, says="takes the name of a variable"),
    R("FINAL_VAR missing", "FINAL_VAR(gone)", (), None, {"rlm-code final_pattern": "gone"}, "no variable 'gone'"),
    R("FINAL_VAR of a constant", "FINAL_VAR(None)", (), None, says="no variable 'None'"),
    R("FINAL_VAR in a sentence", "I will call FINAL_VAR(x) later", (), None, {"rlm-code": ENDS}, NO_BLOCK),
    R("SUBMIT in prose", "SUBMIT(it)", (), None, says=NO_BLOCK),
    R("the answer dict in prose", 'answer["content"] = 1\nanswer["ready"] = True', (), None, says=NO_BLOCK),
    R("in a plain fence", "```\nFINAL(42)\n```", (), None, says=NO_BLOCK),
    # -- blocks and prose
    R("a block, then FINAL", fence("y = 1") + "FINAL(42)", ("y = 1",), None,
      {"official-old": "42", "rlm-kit": None, "LA3D": "42", "rlm-code": "42"}, UNSEEN),
    R("a block, then FINAL in a sentence", fence("y = 1") + "It is FINAL(42).", ("y = 1",), None),
    R("a block, then FINAL_VAR", fence("y = 'new'") + "FINAL_VAR(y)", ("y = 'new'",), "new"),
    R("a block that fails, then FINAL_VAR", fence("1/0") + "FINAL_VAR(x)", ("1/0",), None, says="ZeroDivisionError"),
    R("FINAL_VAR, then a block", "FINAL_VAR(x)\n" + fence("y = 1"), ("y = 1",), None),
    R("a block with FINAL, then FINAL", fence("FINAL('in')") + "FINAL(out)", ("FINAL('in')",), "in"),
    R("a block with a FINAL not reached", fence("if not x: FINAL('in')") + "FINAL_VAR(x)", ("if not x: FINAL('in')",),
      "value", {"official-old": "value"}),
    # -- a model that plays the kernel
    R("an output it made up", fence("len(x)") + "Output:\n```\n7\n```\nFINAL(7)", ("len(x)",), None),
    R("a bold output it made up", fence("len(x)") + "**Output:** 7\n\nFINAL(7)", ("len(x)",), None),
    R("an output cell it made up", fence("len(x)") + "Out[3]: 7\n" + fence("FINAL(7)"), ("len(x)",), None),
    R("an output fence it made up", fence("len(x)") + fence("7", tag="output") + "FINAL_VAR(x)", ("len(x)",), None),
    R("an output it announces", fence("len(x)") + "This prints:\n" + fence("7", tag="") + "FINAL(7)", ("len(x)",), None),
)
# fmt: on
