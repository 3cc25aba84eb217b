import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rlm_jupyter.parsing import (
    Declaration,
    Reading,
    declared_in_prose,
    declares_ready,
    find_final_answer,
    literal_cell,
    mend_cell,
    mend_prose_final,
    only_constant_final,
    parse,
    shadowed_names,
    unquoted,
)
from rlm_jupyter.types.errors import ConfigurationError
from tests.support.pace import Pace

PIECES = [
    "```repl\n", "```python\n", "```", "````\n", "~~~\n", "```output\n", "\n", "\r\n", "  ", "x = 1\n", '"""', "'''",
    "Output:", "**Output:**\n", "FINAL(", "FINAL_VAR(", ")", "(", '"', "'", "\\", "text ", "\ud800", "%%time\n",
    'answer["ready"] = True\n', "é",
]  # fmt: skip
replies = st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=40).map("".join))


def whole(reply: str) -> str:
    parsed = parse(reply)
    return "".join(s.prefix + s.text + s.suffix for s in parsed.segments) + reply[parsed.read :]


@given(replies)
@example("```repl\r\nx\r\n```\r\n")
@example("\n\n   ```repl\n   x\n   ```\n \n")
def test_a_reply_can_be_rebuilt_from_its_segments(reply: str) -> None:
    assert whole(reply) == reply


@given(replies)
def test_any_text_can_be_read(text: str) -> None:
    parse(text)
    find_final_answer(text)
    mend_prose_final(text)
    declares_ready(text)
    only_constant_final(text)
    declaration = declared_in_prose(text)
    if declaration:
        cell = literal_cell(declaration)
        compile(cell, "<cell>", "exec")
        assert re.match(rf"{declaration.kind}\s*\(", text[declaration.start :])
        assert text[declaration.end - 1] == ")"


@given(st.text())
def test_an_answer_in_prose_comes_back_whole(answer: str) -> None:
    namespace: list[str] = []
    declaration = Declaration("FINAL", answer, 0, 0)
    exec(literal_cell(declaration), {"FINAL": namespace.append, "FINAL_VAR": namespace.append})
    assert namespace == [unquoted(answer)]


@given(replies)
def test_a_document_in_a_string_or_a_comment_declares_nothing(document: str) -> None:
    comment = "".join(f"# {line}\n" for line in document.splitlines())
    source = f"text = {document!r}\n{comment}"
    assert mend_prose_final(source) is None
    assert not declares_ready(source)
    assert not only_constant_final(source)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 250_000,
        "FINAL(\n" * 37_500,
        'FINAL("\n' * 32_500,
        'FINAL(f"x"\n' * 22_500 + '"' + ")" * 22_500 + '"',
        "FINAL('x\n'\n" * 22_500 + '"' + ")" * 22_500 + '"',
        "```\n" * 60_000,
        "```repl\nx\n```\n" * 17_500,
        "```repl\n'''\n```\n'''\n" * 12_500,
        "```repl\nx\n```\noutput" + " " * 250_000,
        "```repl\nx\n```\n" + "results:" * 30_000 + "\n```\n1\n```",
        "FINAL(\n" + "```repl\nx\n```\n" * 15_000 + ")",
        "answer ready" + " " * 250_000 + "x x",
        "-" * 250_000 + "1",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_a_long_text_is_read_at_once(text: str) -> None:
    # a quadratic reading takes minutes
    for read in (parse, find_final_answer, mend_prose_final, declares_ready):
        pace = Pace(time.process_time)
        read(text)
        assert pace.within(4.0), read


def test_prose_and_blocks_are_told_apart() -> None:
    parsed = parse("I look.\n\n```repl\nprint(1)\n```\nThen:\n\n```REPL\nprint(2)\n```\n")
    assert [(s.kind, s.text) for s in parsed.segments] == [
        ("prose", "I look."),
        ("block", "print(1)"),
        ("prose", "Then:"),
        ("block", "print(2)"),
    ]
    assert parsed.blocks == ("print(1)", "print(2)")
    assert parsed.prose == "I look.\n\nThen:"
    assert (parsed.prose_after, parsed.unclosed) == ("", False)


def test_python_blocks_run_only_when_there_is_no_repl_block() -> None:
    assert parse("```python\na\n```\n```Py\nb\n```").blocks == ("a", "b")
    mixed = parse("```python\na\n```\n```repl\nb\n```\nend")
    assert mixed.blocks == ("b",)
    assert mixed.prose == "```python\na\n```\n\nend"


@pytest.mark.parametrize("tag", ["", "json", "text", "bash", "repl-output"])
def test_other_fences_are_prose(tag: str) -> None:
    reply = f"```{tag}\nprint(1)\n```\n"
    assert parse(reply).blocks == ()
    assert parse(reply).prose == reply.strip()


def test_a_block_in_a_longer_fence_of_another_kind_is_prose() -> None:
    assert parse("````markdown\n```repl\nx\n```\n````\n").blocks == ()


def test_a_longer_or_tilde_fence_is_closed_by_its_own_kind() -> None:
    assert parse("````repl\na = 1\n```\nb\n`````\nafter").blocks == ("a = 1\n```\nb",)
    assert parse("~~~repl\na\n```\n~~~").blocks == ("a\n```",)


def test_indentation_and_line_ends_of_the_fence_do_not_reach_the_source() -> None:
    assert parse("  ```repl\r\n  if x:\r\n    y\r\n  ```\r\n").blocks == ("if x:\n  y",)


def test_inline_code_opens_no_fence() -> None:
    assert parse("```repl x``` is how.\n```repl\ny\n```").blocks == ("y",)


def test_an_empty_block_is_prose() -> None:
    parsed = parse("```repl\n\n```")
    assert parsed.blocks == ()
    assert not parsed.unclosed


@pytest.mark.parametrize("head", ["", "```repl\nfirst\n```\n"])
def test_a_block_that_is_cut_off_does_not_run(head: str) -> None:
    parsed = parse(head + "```repl\nprint(1")
    assert parsed.unclosed
    assert parsed.blocks == (("first",) if head else ())
    assert parsed.prose.endswith("```repl\nprint(1")


@pytest.mark.parametrize(
    "source",
    [
        'text = """\n```\ncode\n```\n"""\nprint(text)',
        "text = '''a \\''' b\n```python\nx\n```\n'''",
        'a = "\'\'\'"  # it\'s """\nb = """\n```\n"""',
        '%load_ext x\n!ls\nawait f("""\n```\n""")',
    ],
)
def test_a_fence_inside_a_string_does_not_end_the_block(source: str) -> None:
    parsed = parse(f"```repl\n{source}\n```\nafter\n```repl\nlast\n```")
    assert parsed.blocks == (source, "last")
    assert parsed.prose_after == ""


def test_a_block_that_never_parses_ends_at_the_first_fence() -> None:
    assert parse('```repl\nx = """\n```\nprose\n```repl\ny\n```\n').blocks == ('x = """', "y")
    assert parse('```repl\nx = = """\n```\n"""\n```\n').blocks == ('x = = """',)
    assert parse("```repl\nx = = 1\n```\nprose\n```\n").blocks == ("x = = 1",)


def test_fences_in_the_content_of_a_final_are_part_of_the_answer() -> None:
    reply = "FINAL(\nRun this (twice):\n```python\nprint(1)\n```\nDone.)\n"
    assert parse(reply).blocks == ()
    declaration = declared_in_prose(parse(reply).prose)
    assert declaration is not None
    assert declaration.content == "Run this (twice):\n```python\nprint(1)\n```\nDone."


def test_a_final_whose_bracket_closes_within_a_block_hides_nothing() -> None:
    assert parse("FINAL(a\n```repl\nprint(1))\n```\n").blocks == ("print(1))",)


@pytest.mark.parametrize(
    "made_up",
    [
        "**Output:**\n```\n100\n```\nFINAL(100)",
        "Output: 1200\n\nFINAL(1200)",
        "### Output\n1200",
        "REPL output:\n3",
        "Expected output:\n3",
        "The output of the code is:\n```text\n3\n```",
        "This prints:\n\n```plaintext\n3\n```\nFINAL(3)",
        "**The result is:**\n```\n3\n```",
        "```output\n3\n```\nFINAL(3)",
        "```stdout\n3",
        "Out[3]: 42\nFINAL(42)",
        "[Execution result]\n42",
        "**Result:** 42",
        "Output of block 1:\n3",
        "Output (block 2):\n3",
        "Observation: 3",
        "Final Answer:\n```\n1200\n```",
        "**Final Answer:** 1200\n\n```text\n1200\n```",
        "## The final answer\n~~~\n1200\n~~~",
        "Result:\n```text\n3\n```\nFINAL(3)",
    ],
)
@pytest.mark.parametrize("after", ["", "\n```repl\nmore\n```\n", "\n```repl\ncut o"])
def test_an_output_that_the_model_makes_up_is_not_read(made_up: str, after: str) -> None:
    before = "Look.\n```repl\nprint(n)\n```\nIt counts.\n\n"
    parsed = parse(before + made_up + after)
    assert parsed.read == len(before)
    assert not parsed.unclosed
    assert parsed.blocks == ("print(n)",)
    assert parsed.prose_after == "It counts."


@pytest.mark.parametrize(
    "between",
    [
        "This prints the number of lines. The output shows whether it is long.",
        "It does this:\n- Input: the text\n- Output: a list of names",
        "* Output: a list of names",
        "The result of this decides what to do next:",
        "Outputs are cut at 20,000 characters.",
        "The header looks like this:\n```text\nname,age\n```",
        "Next, the same for the `output` column:\n```json\n{}\n```",
        "Result: if there is none, I search more loosely.",
        "I expect the output: none.",
        "It prints what is in this:\nthe text\n```text\nname,age\n```",
        "It prints the columns of the header.\n```text\nname,age\n```",
    ],
)
def test_prose_between_blocks_is_no_output(between: str) -> None:
    parsed = parse(f"```repl\na\n```\n{between}\n```repl\nb\n```\n")
    assert parsed.blocks == ("a", "b")


@pytest.mark.parametrize("tag", ["", "text", "output", "console"])
def test_a_plain_fence_at_once_after_a_block_is_not_read(tag: str) -> None:
    before = "Look.\n```repl\nprint(n)\n```\n"
    parsed = parse(f"{before}\n```{tag}\n100\n```\nThere are 100.\n```repl\nFINAL(100)\n```")
    assert (parsed.blocks, parsed.prose) == (("print(n)",), "Look.")
    assert parsed.read <= len(before) + 1


def test_a_plain_fence_elsewhere_and_an_answer_in_words_are_read() -> None:
    assert parse("```text\nthe plan\n```\n```repl\na\n```\n```repl\nb\n```").blocks == ("a", "b")
    assert parse("```repl\na\n```\n```json\n{}\n```\n```\n1\n```\n```repl\nb\n```").blocks == ("a", "b")
    parsed = parse("```repl\na\n```\n| a | b |\n|---|---|\n| 1 | 2 |\n\nFinal answer:\nFINAL_VAR(x)")
    assert parsed.prose_after.endswith("FINAL_VAR(x)")


SPOKEN = [
    "I look.\n",
    "```repl\nprint(1)\n```\n",
    "```python\nprint(2)\n```\n",
    '```repl\ns = """\n```\nOutput:\n```\n"""\n```\n',
    '```repl\ns = """\n```\n',
    "Output:\n",
    "**Output:** 7\n",
    "Final Answer:\n",
    "```\n7\n```\n",
    "```text\n7\n",
    "```\n",
    "~~~\n",
    "FINAL(7)\n",
    "FINAL(seven\n",
    "and so on)\n",
    "| a | b |\n",
]


@given(st.lists(st.sampled_from(SPOKEN), max_size=9).map("".join), st.integers(1, 7))
@settings(max_examples=300, deadline=None)
@example("FINAL(seven\n```repl\nprint(1)\n```\nOutput:\n7\nand so on)\n", 7)
def test_a_reply_is_closed_only_where_the_rest_can_not_count(text: str, size: int) -> None:
    reading = Reading()
    whole = parse(text)
    for end in range(size, len(text) + size, size):
        if reading.is_over(text[end - size : end]):
            heard = parse(text[:end])
            assert (heard.segments, heard.read, heard.unclosed) == (whole.segments, whole.read, whole.unclosed)
            return
    if whole.read < len(text) and text.endswith("\n") and whole.blocks and "FINAL" not in text and '"""' not in text:
        assert "```python" in text


WRITTEN = [
    *SPOKEN,
    "```repl\nFINAL(7)\n```\n",
    "```repl\n7\n```\n",
    "```repl\n\n```\n",
    "So ```repl\nprint(3)\n```\n",
    "> so ```repl\n",
    "    ```repl\n",
    "  ```repl\n  print(4)\n  ```\n",
    "````repl\n```\nprint(5)\n````\n",
    "```repl\n%%bash\necho '''\n```\n",
    "```repl\n!echo '''\n```\n",
    "'''\n```\n",
    '```repl\nx = f"{"""a"""}"\n```\n',
    '```repl\nx = """a""" + "b\\\n```\n',
    "```repl\nprint(6)\r\n```\r\n",
    "```repl",
    "\n",
    "FINAL(",
    "(7)\n",
    "**FINAL(7)**\n",
    "out)\n```\n",
]


@given(st.lists(st.sampled_from(WRITTEN), max_size=9).map("".join), st.integers(1, 9))
@settings(max_examples=1_000, deadline=None)
@example("```repl\n%%bash\necho '''\n```\n'''\n```\n", 3)
@example("FINAL(seven\n```repl\nprint(1)\n```\nand so on)\n", 7)
@example("```python\nprint(2)\n```\n```repl\nFINAL(7)\n```\n```repl\nprint(1)\n```\n", 4)
def test_the_first_block_is_certain_only_where_the_whole_reply_begins_with_it(text: str, size: int) -> None:
    reading, whole = Reading(), parse(text)
    for end in range(size, len(text) + size, size):
        reading.is_over(text[end - size : end])
        assert not reading.opening or text[:end].startswith(reading.opening)
    alone = parse(reading.opening)
    if reading.opening:
        assert len(alone.blocks) == 1
        assert whole.blocks[:1] == alone.blocks
        assert (alone.read, alone.unclosed) == (len(reading.opening), False)
    elif text.endswith("\n") and whole.blocks and "FINAL" not in text and not re.search(r"\"{3}|'{3}", text):
        assert "```python" in text


@pytest.mark.parametrize(
    "block", ["print(1)", 's = """a"""', 's = """\n```\n"""', "# it's one\nprint(1)", "x = f(\n    1,\n)"]
)
def test_a_first_block_is_certain_as_soon_as_it_is_closed(block: str) -> None:
    reading = Reading()
    opening = f"I look.\n```repl\n{block}\n```"
    reading.is_over(opening)
    assert not reading.opening
    reading.is_over("\n")
    assert reading.opening == opening + "\n"
    reading.is_over("And more.\n```repl\nprint(2)\n```\n")
    assert reading.opening == opening + "\n"


def test_an_output_shown_before_any_block_is_read() -> None:
    assert parse("Output:\n```\n3\n```\nso\n```repl\nb\n```").blocks == ("b",)
    assert parse("```python\neg\n```\nOutput:\n3\n\n```repl\nb\n```").blocks == ("b",)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("FINAL(42)", "42"),
        ("Done.\n  \tFINAL(42)\nbye", "42"),
        ("FINAL(answer (with (nested)) parens)", "answer (with (nested)) parens"),
        ('FINAL("hello")', '"hello"'),
        ('FINAL("a ) b")', '"a ) b"'),
        ("FINAL('a ( b')", "'a ( b'"),
        ('FINAL("say \\")\\" now")', '"say \\")\\" now"'),
        ('FINAL("""a ) "b" ) c""")', '"""a ) "b" ) c"""'),
        ('FINAL("a)" + "b(")', '"a)" + "b("'),
        ('FINAL(f"a)")', 'f"a)"'),
        ('FINAL("Yes", said John (it\'s fine))', '"Yes", said John (it\'s fine)'),
        ('FINAL("open (quote)', None),
        ('FINAL("never closed)', '"never closed'),
        ("FINAL(It's (really) fine)", "It's (really) fine"),
        ("FINAL(one\r\ntwo)\r\n", "one\r\ntwo"),
        ("FINAL(\n  one\n  two\n)", "one\n  two"),
        ("FINAL(first)\nexplained (above)", "first"),
        ("FINAL(a)\n\nFINAL(b)", "a"),
        ("FINAL(oops\nFINAL(b)", "b"),
        ("FINAL()", None),
        ("FINAL(  )", None),
        ("FINAL(42).", "42"),
        ("FINAL(never closed", None),
        ("", None),
        ("I will call FINAL(x) later", None),
        ("**FINAL(42)**", "42"),
        ("**FINAL(42)** it is", None),
        ("FINAL(x) will be returned later (after checks)", None),
        ("`FINAL(42)`", "42"),
        ("> FINAL(42)", None),
        ("Answer: FINAL(42)", None),
        ("- FINAL(42)", None),
        ("SEMIFINAL(3)", None),
        ("final(3)", None),
        ("FINAL (3)", "3"),
        ("FINAL ( 'q' )", "'q'"),
        ("```repl\nFINAL(x)\n```", None),
        ("```repl\nFINAL(x)", None),
        ("```text\nFINAL(x)\n```\nFINAL(y)", "y"),
        ("FINAL(see FINAL_VAR)\n", "see FINAL_VAR"),
        ("FINAL(a\nFINAL_VAR(x) is text\n)", "a\nFINAL_VAR(x) is text"),
    ],
)
def test_final_is_found(text: str, answer: str | None) -> None:
    assert find_final_answer(text) == answer


class Printing:
    """An environment that really runs the code."""

    def __init__(self, **variables: object) -> None:
        self.variables = variables

    def execute_code(self, code: str) -> object:
        import contextlib
        import io
        from types import SimpleNamespace

        printed = io.StringIO()
        error = ""
        with contextlib.redirect_stdout(printed):
            try:
                exec(code, dict(self.variables))
            except NameError as missing:
                error = str(missing)
        return SimpleNamespace(stdout=printed.getvalue(), stderr=error)


@pytest.mark.parametrize("spelling", ["x", "'x'", '"x"', " x "])
def test_final_var_is_looked_up(spelling: str) -> None:
    text = f"FINAL(no)\nFINAL_VAR({spelling})\n"
    assert find_final_answer(text, Printing(x=" 1\n2 \n")) == " 1\n2 \n"
    assert find_final_answer(text, Printing(x="")) == ""
    assert find_final_answer(text, lambda code: f"ran {code}\n") == "ran print(x)"


def test_final_var_without_a_value_is_none_and_no_final() -> None:
    text = "FINAL_VAR(x)\nFINAL(42)"
    assert find_final_answer(text) is None
    assert find_final_answer(text, Printing()) is None
    assert find_final_answer("FINAL_VAR(import os)", Printing()) is None

    def fails(code: str) -> str:
        raise NameError(code)

    assert find_final_answer(text, fails) is None


def test_what_cannot_run_code_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="execute_code"):
        find_final_answer("FINAL_VAR(x)", 3)  # type: ignore[arg-type]


def test_offsets_of_a_declaration() -> None:
    text = "so\n FINAL( 42 ) !"
    assert declared_in_prose(text) == Declaration("FINAL", "42", 4, 15)
    assert text[4:15] == "FINAL( 42 )"


@pytest.mark.parametrize(
    ("content", "bare"),
    [
        ('"a"', "a"),
        ("'it\\'s'", "it's"),
        ("'it's fine'", "it's fine"),
        ('"two\nlines"', "two\nlines"),
        ('"""two\nlines"""', "two\nlines"),
        ("“curly”", "curly"),
        ('"a" or "b"', '"a" or "b"'),
        ('f"{x}"', 'f"{x}"'),
        ("O'Neil's", "O'Neil's"),
        ('"', '"'),
        ('"\\d+"', "\\d+"),
        ("", ""),
    ],
)
def test_quotes_around_the_whole_come_off(content: str, bare: str) -> None:
    assert unquoted(content) == bare


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("FINAL(2024-11-12)", "FINAL('2024-11-12')"),
        ('FINAL("hi")', "FINAL('hi')"),
        ("FINAL(x)", "FINAL('x')"),
        ("FINAL(result)", "FINAL_VAR('result')"),
        ('FINAL("result")', "FINAL('result')"),
        ("FINAL_VAR(name)", "FINAL_VAR('name')"),
        ("FINAL_VAR('name')", "FINAL_VAR('name')"),
        ('FINAL_VAR(rows["a"][0])', 'FINAL_VAR(rows["a"][0])'),
        ("FINAL_VAR(the answer)", "FINAL_VAR('the answer')"),
    ],
)
def test_the_cell_made_of_a_declaration(text: str, cell: str) -> None:
    declaration = declared_in_prose(text)
    assert declaration is not None
    assert literal_cell(declaration, {"result"}) == cell


@pytest.mark.parametrize(
    ("source", "mended"),
    [
        ("FINAL(the answer (with parens))", "FINAL('the answer (with parens)')"),
        ("x = 1\nif x:\n    FINAL(it's 42)\n", 'x = 1\nif x:\n    FINAL("it\'s 42")\n'),
        ("if x:\n  FINAL(yes it is)\nelse:\n  FINAL(y)", "if x:\n  FINAL('yes it is')\nelse:\n  FINAL(y)"),
        ("%matplotlib inline\n!ls\nFINAL(so it is)", "%matplotlib inline\n!ls\nFINAL('so it is')"),
        ("FINAL(007)", "FINAL('007')"),
        ("FINAL (the answer (in words))", "FINAL('the answer (in words)')"),
        ("FINAL(the answer)  # said (so)", "FINAL('the answer')  # said (so)"),
        ("FINAL(two\nlines here)", "FINAL('two\\nlines here')"),
        (
            'd = """\nFINAL(the document says)\n"""\nFINAL(my own answer)',
            'd = """\nFINAL(the document says)\n"""\nFINAL(\'my own answer\')',
        ),
        ("FINAL(42)", None),
        ("FINAL(New York)\nx = = 1", None),
        ('d = """\nFINAL(the document says)\n"""\nx = = 1', None),
        ("%%bash\nFINAL(the answer is)", None),
        ("%%time\nFINAL(the answer is)", None),
        ("x = FINAL(the answer is)", None),
        ("FINAL(the answer", None),
        ("x = (", None),
    ],
)
def test_a_final_that_makes_a_cell_no_python_is_mended(source: str, mended: str | None) -> None:
    assert mend_prose_final(source) == mended


@pytest.mark.parametrize(
    "source",
    [
        "FINAL(42)", 'FINAL("a" "b")', "# so\nFINAL(-1.5)", "FINAL([1, {'a': 2}])", 'FINAL(f"x")', "SUBMIT(answer=3)",
        '"""doc"""\nFINAL(1)', "%%time\nFINAL(1)",
    ],
)  # fmt: skip
def test_a_cell_that_only_types_an_answer(source: str) -> None:
    assert only_constant_final(source)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "42",
        "FINAL(x)",
        "FINAL(1 + n)",
        'FINAL(f"{x}")',
        "x = 1\nFINAL(1)",
        "print(1)",
        "FINAL(",
        "%%bash\nFINAL(1)",
    ],
)
def test_a_cell_that_does_more_than_type_an_answer(source: str) -> None:
    assert not only_constant_final(source)


@pytest.mark.parametrize(
    "source",
    [
        'answer["ready"] = True',
        "answer['content'] = x\nif x:\n    answer['ready'] = True",
        'answer["content"], answer["ready"] = x, True',
        "answer.update(content=x, ready=True)",
        'answer.update({"content": x, "ready": True})',
        'answer.update([("ready", True)])',
        'answer |= {"ready": True}',
        'answer |= dict(content=x, ready=True)',
        'answer = {"content": x, "ready": True}',
        'answer: dict = {"ready": True}',
        'answer = {**answer, **{"ready": True}}',
        'answer = answer | {"ready": True}',
        'answer.setdefault("ready", True)',
        'a = answer["ready"] = True',
        'def done():\n    answer["ready"] = True\ndone()',
        '!ls\nx = %who_ls\nhelp?\nanswer["ready"] = True',
        '%%time\nanswer["ready"] = True',
        '!echo \\\n  on\nanswer["ready"] = True',
        '  x = 1\n  answer["ready"] = True',
    ],
)  # fmt: skip
def test_ready_as_a_literal_counts(source: str) -> None:
    assert declares_ready(source)


@pytest.mark.parametrize(
    "source",
    [
        'answer["ready"] = False',
        'answer["ready"] = "False"',
        'answer["ready"] = 1',
        'answer["ready"] = ready',
        "answer = json.loads(document)  # ready",
        "answer.update(json.loads(document), ready=done)",
        "text = 'answer[\"ready\"] = True'",
        '# answer["ready"] = True',
        'other["ready"] = True; answer = 1',
        'answer["content"] = "ready"',
        '%%bash\nanswer["ready"] = True',
        'answer["ready"] = = True',
    ],
)
def test_ready_otherwise_does_not_count(source: str) -> None:
    assert not declares_ready(source)


def test_reading_leaves_the_warning_filters_alone(recwarn: pytest.WarningsRecorder) -> None:
    import warnings

    before = list(warnings.filters)
    assert only_constant_final(r'FINAL("\d")')
    assert list(warnings.filters) == before
    assert not recwarn.list


def test_a_block_may_open_at_the_end_of_a_sentence() -> None:
    reply = "I count the lines. ```repl\nprint(1)\n```\nThen ```x``` stays prose, and so does ```python here.\n"
    parsed = parse(reply)
    assert parsed.blocks == ("print(1)",)
    assert "".join(s.prefix + s.text + s.suffix for s in parsed.segments) == reply
    assert parsed.segments[0].text == "I count the lines."


@pytest.mark.parametrize(
    ("source", "names", "executed"),
    [
        ("def FINAL(x): print(x)\nFINAL(1)", ("FINAL",), "# FINAL is there already\nFINAL(1)"),
        ("x = 1\nFINAL = None\nFINAL(x)", ("FINAL",), "x = 1\n# FINAL is there already\nFINAL(x)"),
        ("FINAL: object = 3", ("FINAL",), "# FINAL is there already"),
        (
            "@cached\ndef llm_query(p):\n    return p\nprint(llm_query('é'))",
            ("llm_query",),
            "# llm_query is there already\n\n\nprint(llm_query('é'))",
        ),
        ("async def allm_query(p): ...\n", ("allm_query",), "# allm_query is there already\n"),
        ("class SUBMIT: pass\nSUBMIT = 1", ("SUBMIT",), "# SUBMIT is there already\n# SUBMIT is there already"),
        ("context = ...  # the text\nlen(context)", ("context",), "# context is there already\nlen(context)"),
        ("context = '''a\nb\x0cc'''\nlen(context)", ("context",), "# context is there already\n\nlen(context)"),
        # what makes something of the real one, and what only looks like it
        ("context = context.splitlines()", (), None),
        ("text = context\ncontext = 'a'", (), None),
        ("context = [1, 2]", (), None),
        ("context = f'{open(path).read()}'", (), None),
        ("llm_query = functools.partial(llm_query, model='a/b')", (), None),
        ("ask = llm_query\ndef llm_query(p): return ask(p).strip()", (), None),
        ("def f():\n    FINAL = print\n    FINAL(1)", (), None),
        ("if small:\n    def llm_query(p): return p", (), None),
        ("FINAL = 3; FINAL('no')", (), None),
        ("x = 'FINAL = 3'", (), None),
        ("obj.FINAL = 3", (), None),
        ("FINAL, x = 1, 2", (), None),
        ("!ls\ndef FINAL(x): pass", (), None),
        ("%%bash\nFINAL=3", (), None),
        ("FINAL = (", (), None),
        ("print(FINAL=1)", (), None),
    ],
)
def test_stand_ins_are_found_and_left_out(source: str, names: tuple[str, ...], executed: str | None) -> None:
    assert shadowed_names(source) == names
    assert mend_cell(source) == executed


def test_a_constant_context_is_left_alone_where_there_is_none() -> None:
    assert mend_cell("context = 'mine'", has_context=False) is None
    assert mend_cell("context = 'mine'\nFINAL = 3", has_context=False) == "context = 'mine'\n# FINAL is there already"


@given(replies)
def test_a_document_in_a_string_or_a_comment_is_no_stand_in(document: str) -> None:
    comment = "".join(f"# {line}\n" for line in document.splitlines())
    assert mend_cell(f"text = {document!r}\n{comment}") is None
