r"""Vectors: a text, what we answer to it, and what other implementations answered to the same.

`TEXTS` are read by `find_final_answer`; `REPLIES` are played as replies of a model. Those who are compared:

    official-old    the reference implementation up to 0.1.1, two regular expressions over the raw text:
                    `^\s*FINAL_VAR\((.*?)\)` first, then the greedy `^\s*FINAL\((.*)\)\s*$`
    official        the reference implementation from 0.1.2 on: the `answer` dict, FINAL is nothing any more
    rlm-kit         a fork of official-old; fenced code is taken away first
    LA3D            brackets that balance, strings not looked at
    rlm-code        its parser of replies
    rlm-code final_pattern   its policy, which reads what a cell printed

An answer is a text, no answer is `None`, and `ENDS` says that it ended the run there, on whatever answer.
Who is not named for a vector was not seen with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ENDS = "(it ends the run)"
PEERS = frozenset({
    "official-old", "official", "rlm-kit", "LA3D", "rlm-code", "rlm-code final_pattern",
    "official in-process ipython", "official subprocess ipython",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Vector:
    """A text or cells, and what is answered."""

    id: str
    source: str | tuple[str, ...]
    """A reply, or the cells of a run."""
    ours: str | None
    peers: Mapping[str, str | None] = field(default_factory=dict)
    note: str = ""
    variables: Mapping[str, str] | None = None
    """Of the environment; `None`: there is no environment."""
    says: str = ""
    """Part of what the model is told."""

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.source,) if isinstance(self.source, str) else self.source

    @property
    def text(self) -> str:
        return self.cells[0]


def both(answer: str | None) -> dict[str, str | None]:
    """The two that share the greedy regular expression."""
    return {"official-old": answer, "rlm-kit": answer}


NOBODY: dict[str, str | None] = {"official-old": None, "rlm-kit": None, "LA3D": None, "rlm-code": None}
V = Vector

# fmt: off
TEXTS: tuple[Vector, ...] = (
    # -- where the word stands
    V("alone", "FINAL(42)", "42", {"official": None}),
    V("after lines", "I counted.\n\nFINAL(42)", "42"),
    V("before lines", "FINAL(42)\nThat is it.", "42"),
    V("blanks before", "   FINAL(42)", "42"),
    V("tab before", "\tFINAL(42)", "42"),
    V("no-break space before", "\u00a0FINAL(42)", "42"),
    V("form feed before", "\fFINAL(42)", "42"),
    V("indented like code", "so\n\n        FINAL(42)", "42"),
    V("blank lines around", "\n\n\nFINAL(42)\n\n\n", "42"),
    V("a sentence after it", "FINAL(42) is my answer", None, {**both(None), "LA3D": "42", "rlm-code": None}),
    V("a full stop after it", "FINAL(42).", "42", {**both(None), "LA3D": "42", "rlm-code": None}),
    V("a semicolon after it", "FINAL(42);", "42"),
    V("a comment after it", "FINAL(42)  # done", None),
    V("a plan", "My plan:\nFINAL(x) will be returned later (after checks)", None),
    V("blanks after it", "FINAL(42)   \n", "42"),
    V("announced", "I will call FINAL(x) later", None),
    V("announced variable", "I will call FINAL_VAR(x) later", None, {**NOBODY, "rlm-code": ENDS}, variables={"x": "1"}),
    V("after a colon", "Answer: FINAL(42)", None),
    V("bold", "**FINAL(42)**", "42", NOBODY),
    V("bold, with a full stop", "**FINAL(42).**", "42"),
    V("bold, then words", "**FINAL(42)** it is", None),
    V("inline code", "`FINAL(42)`", "42", NOBODY),
    V("double inline code", "``FINAL(42)``", "42"),
    V("italic", "_FINAL(42)_", "42"),
    V("list item", "- FINAL(42)", None),
    V("numbered item", "1. FINAL(42)", None),
    V("quotation", "> FINAL(42)", None),
    V("heading", "# FINAL(42)", None),
    V("table cell", "| FINAL(42) |", None),
    V("in quotes", '"FINAL(42)"', None),
    V("in a tag", "<answer>FINAL(42)</answer>", None),
    V("on the line after a tag", "<answer>\nFINAL(42)\n</answer>", "42"),
    V("in brackets", "(FINAL(42))", None),
    V("after a dollar", "$FINAL(42)$", None),
    V("assigned", "answer = FINAL(42)", None),
    V("printed", "print(FINAL(42))", None),
    V("after a carriage return alone", "so\rFINAL(42)", None),
    V("after a line separator", "so\u2028FINAL(42)", None, note="no line of a reply ends there"),
    V("after a vertical tab", "so\vFINAL(42)", None),
    # -- how it is spelt
    V("lower case", "final(42)", None),
    V("capitalised", "Final(42)", None),
    V("full width", "ＦＩＮＡＬ(42)", None),
    V("full-width brackets", "FINAL（42）", None),
    V("a longer word", "FINALLY(42)", None),
    V("a longer word before", "SEMIFINAL(3)", None, {"rlm-code final_pattern": "3"}),
    V("a word in it", "the semi final (Germany vs Spain)", None, {"rlm-code final_pattern": "Germany vs Spain"}),
    V("a draft", "we call it final (draft)", None, {"rlm-code final_pattern": "draft"}),
    V("a definition", "def FINAL(x): pass", None, {"rlm-code final_pattern": "x"}),
    V("an answer's name", "FINAL_ANSWER(42)", None),
    V("a blank before the bracket", "FINAL (42)", "42"),
    V("blanks around the quotes", "FINAL ( 'q' )", "'q'"),
    V("square brackets", "FINAL[42]", None),
    V("braces", "FINAL{42}", None),
    V("a colon", "FINAL: 42", None),
    V("no bracket", "FINAL", None),
    V("the word about itself", "FINAL(see FINAL_VAR)", "see FINAL_VAR"),
    # -- brackets
    V("nested", "FINAL(answer (with (nested)) parens)", "answer (with (nested)) parens"),
    V("one pair inside", "FINAL(a (b) c)", "a (b) c", {"rlm-code final_pattern": "a (b"}),
    V("a call", "FINAL(f(1,2))", "f(1,2)", {"rlm-code final_pattern": "f(1,2"}),
    V("a pair at the start", "FINAL((a) b)", "(a) b"),
    V("a pair at the end", "FINAL(a (b))", "a (b)"),
    V("only a pair", "FINAL(())", "()"),
    V("two pairs", "FINAL((a) or (b))", "(a) or (b)"),
    V("deep", "FINAL(" + "(" * 50 + "x" + ")" * 50 + ")", "(" * 50 + "x" + ")" * 50),
    V("text with brackets after it", "FINAL(first)\nexplanation (see above)", "first",
      {**both("first)\nexplanation (see above"), "LA3D": "first", "rlm-code": "first"}),
    V("text with brackets on its line", "FINAL(first) as explained (above)", None),
    V("never closed", "FINAL(never closed", None),
    V("never closed, one inside is", "FINAL(a (b) c", None),
    V("one bracket too few", "FINAL((a)", None),
    V("one bracket too many", "FINAL(a))", "a"),
    V("a smile", "FINAL(fine :))", "fine :", note="a bracket in prose is a bracket"),
    V("other brackets are text", "FINAL([a) and {b)", None, note="a line that goes on declares nothing"),
    V("never closed, then another", "FINAL(oops\nFINAL(b)", "b"),
    V("cut off within a pair", "FINAL(see (page 3", None),
    V("nothing", "FINAL()", None, {**both(""), "rlm-code": None, "rlm-code final_pattern": None}),
    V("blanks only", "FINAL( )", None, {"rlm-code final_pattern": ""}),
    V("a line break only", "FINAL(\n)", None),
    # -- content, as written
    V("double quotes stay", 'FINAL("hello")', '"hello"', {"official-old": '"hello"', "rlm-code": "hello"}),
    V("single quotes stay", "FINAL('hello')", "'hello'"),
    V("curly quotes stay", "FINAL(“hello”)", "“hello”"),
    V("blanks around come off", "FINAL(  hello  )", "hello"),
    V("blanks inside stay", "FINAL(a   b)", "a   b"),
    V("no-break spaces around come off", "FINAL(\u00a0a\u00a0)", "a"),
    V("a date", "FINAL(2024-11-12)", "2024-11-12"),
    V("arithmetic", "FINAL(6*7)", "6*7"),
    V("an expression", "FINAL(len(context))", "len(context)"),
    V("a backslash", "FINAL(C:\\temp\\new)", "C:\\temp\\new"),
    V("an escape is no line break", "FINAL('line1\\nline2')", "'line1\\nline2'"),
    V("LaTeX", "FINAL($\\frac{(a+b)}{2}$)", "$\\frac{(a+b)}{2}$"),
    V("Markdown", "FINAL(**42**, see [here](http://x/(a)))", "**42**, see [here](http://x/(a))"),
    V("HTML", "FINAL(<b>42</b>)", "<b>42</b>"),
    V("accents and signs", "FINAL(Ünïcødé – 日本語 (👍))", "Ünïcødé – 日本語 (👍)"),
    V("a lone surrogate", "FINAL(\ud800)", "\ud800"),
    V("a null", "FINAL(a\0b)", "a\0b"),
    V("right to left", "FINAL(\u202eabc)", "\u202eabc"),
    V("a hash", "FINAL(# 1)", "# 1"),
    V("a placeholder", "FINAL(...)", "..."),
    V("JSON", 'FINAL({"a": [1, 2]})', '{"a": [1, 2]}'),
    V("JSON with a bracket in a string", 'FINAL({"a": ":)", "b": "("})', '{"a": ":)", "b": "("}'),
    V("a list with a bracket in a string", 'FINAL([")", "("])', '[")", "("]'),
    V("JSON on several lines", 'FINAL({\n  "a": "1)",\n  "b": "x"\n})', '{\n  "a": "1)",\n  "b": "x"\n}'),
    # -- strings
    V("a bracket in a string", 'FINAL("a ) b")', '"a ) b"', {**both('"a ) b"'), "LA3D": '"a', "rlm-code": "a ) b"}),
    V("an open bracket in a string", "FINAL('a ( b')", "'a ( b'"),
    V("only a bracket in a string", 'FINAL(")")', '")"'),
    V("two strings with one bracket each", 'FINAL(")")\nFINAL("(")', '")"'),
    V("brackets after the string", 'FINAL("a)" (b) "c(")', '"a)" (b) "c("'),
    V("joined strings", 'FINAL("a)" + "b(")', '"a)" + "b("'),
    V("an f-string", 'FINAL(f"{x})")', 'f"{x})"'),
    V("a raw string", 'FINAL(r"\\d)")', 'r"\\d)"'),
    V("an escaped quote", 'FINAL("say \\")\\" now")', '"say \\")\\" now"'),
    V("an escaped backslash", 'FINAL("a\\\\")', '"a\\\\"'),
    V("the other quotes inside", "FINAL(\"it's (so)\")", "\"it's (so)\""),
    V("a bracket and an apostrophe", "FINAL('it's )')", "'it's )'"),
    V("triple quotes", 'FINAL("""a ) "b" ) c""")', '"""a ) "b" ) c"""'),
    V("triple quotes over lines", "FINAL('''a\n) b\n''')", "'''a\n) b\n'''"),
    V("a string over lines", 'FINAL("a\n) b")', '"a\n) b"'),
    V("curly quotes around a bracket", "FINAL(“a ) b”)", "“a ) b”"),
    V("guillemets around a bracket", "FINAL(«a ) b»)", "«a ) b»"),
    V("a quote that never ends", 'FINAL("open (quote)', None),
    V("a quote that never ends, closed", 'FINAL("never closed)', '"never closed'),
    V("an opening quote never closed, curly", "FINAL(“never closed)", "“never closed"),
    V("a quotation first", 'FINAL("Yes", said John (it\'s fine))', '"Yes", said John (it\'s fine)'),
    V("an apostrophe", "FINAL(It's (really) fine)", "It's (really) fine"),
    V("two apostrophes", "FINAL(It's the dogs' (both))", "It's the dogs' (both)"),
    V("a curly apostrophe", "FINAL(It’s (really) fine)", "It’s (really) fine"),
    V("feet and inches", "FINAL(5'11\" (180 cm))", "5'11\" (180 cm)"),
    V("a quote inside prose", 'FINAL(the "best" (one))', 'the "best" (one)'),
    V("a string later on", 'FINAL(x, ")")', None, note="strings are looked at where the content begins with one"),
    # -- lines
    V("two lines", "FINAL(one\ntwo)", "one\ntwo"),
    V("a list of lines", "FINAL(\n- a\n- b (c)\n)", "- a\n- b (c)"),
    V("paragraphs", "FINAL(one\n\ntwo)", "one\n\ntwo"),
    V("carriage returns", "I see.\r\nFINAL(42)\r\n", "42"),
    V("carriage returns inside", "FINAL(one\r\n(two)\r\n)\r\n", "one\r\n(two)"),
    V("a string with line breaks", "FINAL('line1\nline2')", "'line1\nline2'", {"rlm-code final_pattern": None}),
    V("a word at a line start inside", "FINAL(a\nFINAL(b)\nc)", "a\nFINAL(b)\nc"),
    V("a variable at a line start inside", "FINAL(a\nFINAL_VAR(x) is text\n)", "a\nFINAL_VAR(x) is text",
      variables={"x": "1"}),
    # -- more than one
    V("two", "FINAL(a)\n\nFINAL(b)", "a", {**both("a)\n\nFINAL(b"), "LA3D": "a", "rlm-code": "a"}),
    V("two on a line", "FINAL(a) FINAL(b)", None),
    V("two that are joined", "FINAL(a)FINAL(b)", None),
    V("one in a sentence, one alone", "First FINAL(a), then\nFINAL(b)", "b"),
    V("a comparison", "FINAL(3) == FINAL(3)", None),
    # -- fences
    V("in a repl block", "```repl\nFINAL(x)\n```", None,
      {"official-old": "x", "rlm-kit": None, "LA3D": "x", "rlm-code": "x"}, "code is executed, not read"),
    V("in a python block", "```python\nFINAL(x)\n```", None),
    V("in a bare fence", "```\nFINAL(x)\n```", None),
    V("in a tilde fence", "~~~\nFINAL(x)\n~~~", None),
    V("in a longer fence", "````\n```\nFINAL(x)\n```\n````", None),
    V("in an indented fence", "  ```\n  FINAL(x)\n  ```", None),
    V("in a fence that is never closed", "```repl\nFINAL(x)", None),
    V("after a fence", "```text\nFINAL(x)\n```\nFINAL(y)", "y"),
    V("before a fence", "FINAL(y)\n```text\nFINAL(x)\n```", "y"),
    V("between fences", "```\na\n```\nFINAL(y)\n```\nb\n```", "y"),
    V("a fence in the content", "FINAL(\nrun:\n```python\nf(1)\n```\n)", "run:\n```python\nf(1)\n```"),
    V("a fence in the middle of a line", "so ```FINAL(x)```\nFINAL(y)", "y"),
    # -- FINAL_VAR, with no environment
    V("no environment", "FINAL_VAR(x)", None),
    V("no environment, and a FINAL after it", "FINAL_VAR(x)\nFINAL(42)", None, note="no falling back"),
    V("no environment, and a FINAL before it", "FINAL(42)\nFINAL_VAR(x)", None),
    V("no environment, in a fence, and a FINAL", "```\nFINAL_VAR(x)\n```\nFINAL(42)", "42"),
    V("no environment, announced, and a FINAL", "I use FINAL_VAR(x).\nFINAL(42)", "42"),
    V("no environment, never closed, and a FINAL", "FINAL_VAR(x\nFINAL(42)", "42"),
    # -- FINAL_VAR, with one
    V("a variable", "FINAL_VAR(x)", "4950", variables={"x": "4950"}),
    V("a variable in single quotes", "FINAL_VAR('x')", "1", variables={"x": "1"}),
    V("a variable in double quotes", 'FINAL_VAR("x")', "1", variables={"x": "1"}),
    V("a variable between blanks", "FINAL_VAR( x )", "1", variables={"x": "1"}),
    V("a quoted variable between blanks", "FINAL_VAR( 'x' )", "1", variables={"x": "1"}),
    V("a variable on its own line", "FINAL_VAR(\n  x\n)", "1", variables={"x": "1"}),
    V("a variable after a sentence", "Done.\n\n  FINAL_VAR(x)", "1", variables={"x": "1"}),
    V("a variable, then words", "FINAL_VAR(x) holds it", None, variables={"x": "1"}),
    V("a variable before a FINAL", "FINAL_VAR(x)\nFINAL(42)", "1", {"rlm-code final_pattern": "42"}, variables={"x": "1"}),
    V("a variable after a FINAL", "FINAL(42)\nFINAL_VAR(x)", "1", {"official-old": "1"}, variables={"x": "1"}),
    V("two variables", "FINAL_VAR(x)\nFINAL_VAR(y)", "1", variables={"x": "1", "y": "2"}),
    V("a variable with an accent", "FINAL_VAR(größe)", "1", variables={"größe": "1"}),
    V("a value on several lines", "FINAL_VAR(x)", "a\nb\n", variables={"x": "a\nb\n"}),
    V("a value that is empty", "FINAL_VAR(x)", "", variables={"x": ""}),
    V("a value that looks like FINAL", "FINAL_VAR(x)", "FINAL(7)", variables={"x": "FINAL(7)"}),
    V("a value that says not found", "FINAL_VAR(x)", "not found", variables={"x": "not found"}),
    V("a value with a lone surrogate", "FINAL_VAR(x)", "\ud800", variables={"x": "\ud800"}),
    V("a missing variable", "FINAL_VAR('missing')", None, {"official-old": None, "rlm-code final_pattern": "missing"},
      "never its own name", {"x": "1"}),
    V("a missing variable, and a FINAL", "FINAL_VAR(gone)\nFINAL(42)", None, variables={"x": "1"}),
    V("a variable of a call", "FINAL_VAR(f(x))", None, {**both("f(x"), "rlm-code": None}, variables={"x": "1"}),
    V("an item", "FINAL_VAR(x[0])", None, note="a line of code is not run for it", variables={"x": "1"}),
    V("two names", "FINAL_VAR(x, y)", None, variables={"x": "1", "y": "2"}),
    V("code", "FINAL_VAR(import os)", None, variables={"x": "1"}),
    V("code that closes the bracket", "FINAL_VAR(x); print(1)", None, variables={"x": "1"}),
    V("code in quotes", "FINAL_VAR('x); print(1')", None, variables={"x": "1"}),
    V("a constant is no variable", "FINAL_VAR(None)", None, variables={"x": "1"}),
    V("a keyword is no variable", "FINAL_VAR(class)", None, variables={"x": "1"}),
    V("no name", "FINAL_VAR()", None, variables={"x": "1"}),
    V("a variable never closed", "FINAL_VAR(x", None, variables={"x": "1"}),
    V("a variable in lower case", "final_var(x)", None, variables={"x": "1"}),
    V("a variable, a blank before the bracket", "FINAL_VAR (x)", "1", variables={"x": "1"}),
    V("a variable in a fence", "```repl\nFINAL_VAR(x)\n```", None, variables={"x": "1"}),
    V("a variable in bold", "**FINAL_VAR(x)**", "1", variables={"x": "1"}),
    V("FINAL of FINAL_VAR", "FINAL(FINAL_VAR(x))", "FINAL_VAR(x)", variables={"x": "1"}),
    V("FINAL beside variables", "FINAL(x)", "x", variables={"x": "1"}),
)
# fmt: on
