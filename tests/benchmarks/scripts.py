"""The cells that every contender executes, and the replies that they stand in.

They use only what both worlds have: `context`, `llm_query`, `llm_query_batched`, and `answer` to end a run.
Whatever is measured inside of a cell is printed as one line of JSON.
"""

from __future__ import annotations

LENGTH = "print(len(context))"
ANSWER = 'answer["content"] = "done"\nanswer["ready"] = True'


def reply(cell: str) -> str:
    """A model's reply with one block."""
    return f"I run this.\n```repl\n{cell}\n```"


def subcalls(count: int, chars: int) -> str:
    """`llm_query` one after the other: the seconds of each."""
    return f"""\
import json, time
prompt, took = "x" * {chars}, []
for _ in range({count}):
    began = time.perf_counter()
    text = llm_query(prompt)
    took.append(time.perf_counter() - began)
    assert text.startswith("(scripted) x"), text
print(json.dumps(took))
"""


def tools(count: int) -> str:
    """A tool and `llm_query`, in turn: the seconds of each call."""
    return f"""\
import json, time
took = [], []
for place in range(2 * {count}):
    is_tool = (place + place // 2) % 2  # neither is always the first of two
    began = time.perf_counter()
    text = echo("x") if is_tool else llm_query("x")
    took[is_tool].append(time.perf_counter() - began)
    assert text == "(scripted) x", text
print(json.dumps(took))
"""


def batch(count: int) -> str:
    """One `llm_query_batched`: seconds, and how many replies are not those to their prompts."""
    return f"""\
import json, time
prompts = [f"prompt {{i}};" for i in range({count})]
began = time.perf_counter()
texts = llm_query_batched(prompts)
took = time.perf_counter() - began
print(json.dumps([took, sum(not str(text).endswith(prompt) for prompt, text in zip(prompts, texts))]))
"""


def threads(count: int, workers: int) -> str:
    """`llm_query` from many threads: seconds, and how many replies are lost or not those to their prompts."""
    return f"""\
import json, time
from concurrent.futures import ThreadPoolExecutor
def ask(prompt):
    try:
        return str(llm_query(prompt)).endswith(prompt)
    except Exception:
        return False
with ThreadPoolExecutor({workers}) as pool:
    began = time.perf_counter()
    good = list(pool.map(ask, [f"prompt {{i}};" for i in range({count})]))
    took = time.perf_counter() - began
print(json.dumps([took, good.count(False)]))
"""


def one_print(chars: int) -> str:
    """All of the output at once."""
    return f'print(("y" * 99 + "\\n") * {chars // 100}, end="")'


def many_prints(chars: int, count: int) -> str:
    """The same in pieces."""
    return f'line = "y" * {chars // count - 1}\nfor _ in range({count}):\n    print(line)'


def number(i: int) -> str:
    """A cell with hardly anything to do; no two are the same."""
    return f"x = {i}\nprint(x)"


def pages(count: int, chars: int) -> list[str]:
    """Cells with so many characters of output each; no two are the same."""
    return [f'print("{i:06}" + ("z" * 99 + "\\n") * {chars // 100})' for i in range(count)]


def children(count: int, how: str) -> str:
    """So many `rlm_query`, `one by one` or `batched`, that count their contexts' characters; the answer: the seconds.

    It ends the run: what is printed beside children of the reference's that are in the same process is lost.
    """
    calls = {"one by one": "[rlm_query(text) for text in texts]", "batched": "rlm_query_batched(texts)"}
    return f"""\
import time
texts = [f"part {{i}}" for i in range({count})]
began = time.perf_counter()
answers = {calls[how]}
took = time.perf_counter() - began
assert answers == ["6" if i < 10 else "7" for i in range({count})], answers
answer["content"] = str(took)
answer["ready"] = True
"""
