"""Whether a cell can come to anything else when it is executed again."""

from __future__ import annotations

import pytest

from rlm_jupyter.parsing import is_settled

FUNCTION = """\
def count(text, word):
    n = 0
    for line in text.splitlines():
        if word in line:
            n += 1
    return n
print(count(context, "a"))"""


@pytest.mark.parametrize(
    "source",
    [
        "print(len(context))",
        "import re\nprint(re.findall('a', context)[:3])",
        "from collections import Counter\nCounter(context.split()).most_common(3)",
        "total = 0\nfor line in context.splitlines():\n    if 'a' in line:\n        total += 1\nprint(total)",
        "words = {}\nfor word in context.split():\n    words[word] = words.get(word, 0) + 1\nmax(words, key=words.get)",
        "context = context.split()[1:]\nprint(context)",
        "print(sorted(context, key=lambda item: item[0]), {item for item in context})",
        "try:\n    print(int(context))\nexcept ValueError as error:\n    print(error)",
        FUNCTION,
    ],
)
def test_what_reads_nothing_but_the_context_comes_to_the_same(source: str) -> None:
    assert is_settled(source)


@pytest.mark.parametrize(
    "source",
    [
        "print(x)",
        "n = n + 1",
        "n += 1",
        "n = n + len([x for x in context])",
        "for word in context:\n    n += 1",
        "import random\nprint(random.random())",
        "from time import time\nprint(time())",
        "print(open('file').read())",
        "import io\nprint(io.open('file').read())",
        "print(llm_query('a'))",
        "print(next(it))",
        "found = globals().setdefault('found', [])",
        "def f():\n    global n\n    n = 1",
        "class A: pass",
        "context.append(1)\nprint(len(context))",
        "context[0] = 1",
        "context['a'].update(b=1)",
        "await f()",
        "%time pass",
        "!date",
        "x = = 1",
        "FINAL(3)",
    ],
)
def test_what_else_a_cell_reads_may_have_changed(source: str) -> None:
    assert not is_settled(source)
