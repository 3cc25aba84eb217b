"""FINAL and its kin, recorded in a real kernel: one for all tests, and each begins a prompt in it."""

from __future__ import annotations

import pytest

from rlm_jupyter.kernel.guest.codec import DRAFT
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.run import context as contexts

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def kernel(begun: Kernel) -> Kernel:
    return begun


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("FINAL('hi')", "hi"),
        ("FINAL(6*7)", "42"),
        ("x = [1, 2]\nFINAL(x)\nx.append(3)", "[1, 2]"),
        ("FINAL('first'); FINAL('second')", "first"),
        ("FINAL('stands')\n1/0", "stands"),
        ("try:\n    FINAL('kept')\n    raise KeyError\nexcept BaseException: pass", "kept"),
        ("f = FINAL\nf('alias')", "alias"),
        ("def done(x): FINAL(x)\nfor i in range(3): done(i)", "0"),
        ("list(map(FINAL, ['mapped']))", "mapped"),
        (
            "import threading\nt = threading.Thread(target=FINAL, args=['thread'])\nt.start(); t.join()",
            "thread",
        ),
        (
            "import threading\nt = threading.Thread(target=lambda: FINAL('closure'))\nt.start(); t.join()",
            "closure",
        ),
        ("import asyncio\nawait asyncio.sleep(0)\nFINAL('async')", "async"),
        ("%%time\nFINAL('timed')", "timed"),
        ("%time FINAL('time line')", "time line"),
        ("%%capture\nFINAL('captured')", "captured"),
        ("import pandas as pd\npd.Series(['series']).apply(FINAL)", "series"),
        ("FINAL({'a': [1]})", '{"a": [1]}'),
        ("r = 'value'\nFINAL_VAR('r')", "value"),
        ("r = 'value'\nFINAL_VAR(r)", "value"),
        ("r = 'B'\nB = 'wrong'\nFINAL_VAR(r)", "B"),
        ("def f():\n    local = 'inner'\n    FINAL_VAR(local)\nf()", "inner"),
        ("SUBMIT('submitted')", "submitted"),
        ("SUBMIT(answer='field')", "field"),
        ("FINAL('\\ud800')", "\ud800"),
        ("class S(str): pass\nFINAL(S('sub'))", "sub"),
    ],
)
async def test_final_is_recorded(kernel: Kernel, source: str, answer: str) -> None:
    await kernel.execute(source)
    assert (await kernel.inspect()).answer_state == "declared"
    assert (await kernel.get()).text == answer


async def test_frames_and_arrays_are_written_out_in_full(kernel: Kernel) -> None:
    await kernel.execute("import numpy as np\nFINAL(np.arange(5000))")
    text = (await kernel.get()).text
    assert "..." not in text
    assert "2500" in text
    await kernel.begin()
    await kernel.execute("import pandas as pd\nFINAL(pd.DataFrame({'n': range(500), 'wide': ['w' * 200] * 500}))")
    text = (await kernel.get()).text
    assert "..." not in text
    assert "w" * 200 in text


async def test_plain_data_comes_as_data_too(kernel: Kernel) -> None:
    await kernel.execute("FINAL({'n': 1, 'rows': [None, True, 2.5]})")
    value = await kernel.get()
    assert value.json == {"n": 1, "rows": [None, True, 2.5]}
    assert value.is_json
    await kernel.begin()
    await kernel.execute("FINAL({1, 2})")
    assert not (await kernel.get()).is_json


@pytest.mark.parametrize(
    "source",
    [
        "exec(context)",
        "eval(compile(context, 'document.txt', 'exec'))",
        "get_ipython().run_cell(context)",
        "get_ipython().run_line_magic('time', context)",
        "import builtins\nbuiltins.FINAL = FINAL\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(1) as pool: list(pool.map(exec, [context]))",
        "'''\nFINAL(1)\n'''\n# FINAL(2)\nprint(\"FINAL(3)\")\nif False: FINAL(4)",
        "f'FINAL({1})'",
        "globals()['__doc__'] = 'FINAL(1)'",
    ],
)
async def test_a_document_records_nothing(kernel: Kernel, source: str) -> None:
    await kernel.set_context(contexts.pack("FINAL('hacked')"))
    await kernel.execute(source)
    assert (await kernel.inspect()).answer_state == "none"


async def test_a_document_that_was_executed_is_mentioned(kernel: Kernel) -> None:
    await kernel.execute("exec('FINAL(1)')")
    assert "did not count" in (await kernel.inspect()).notices[0]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("FINAL(None)", "the value is None"),
        ("FINAL()", "takes one value, not 0"),
        ("FINAL(1, 2)", "takes one value, not 2"),
        ("FINAL(x for x in [])", "a generator is no answer"),
        ("async def c(): pass\nFINAL(c())", "a coroutine is no answer"),
        ("FINAL(print)", "is no answer"),
        (
            "class Bad:\n    def __str__(self): 1/0\nFINAL(Bad())",
            "can't be turned into text: ZeroDivisionError",
        ),
        ("kept = 1\nFINAL_VAR('gone')", "there is no variable 'gone'. Variables: kept"),
        ("FINAL(gone)", "name 'gone' is not defined"),
    ],
)
async def test_what_is_no_answer_is_an_error_and_no_answer(kernel: Kernel, source: str, says: str) -> None:
    run = await kernel.execute(source)
    errors = [output["evalue"] for output in run.outputs if output["output_type"] == "error"]
    assert says in errors[0]
    assert (await kernel.inspect()).answer_state != "declared"


async def test_a_swallowed_refusal_is_reported(kernel: Kernel) -> None:
    await kernel.execute("try: FINAL(None)\nexcept Exception: pass")
    inspection = await kernel.inspect()
    assert inspection.answer_state == "refused"
    assert "None" in inspection.problem


async def test_sub_calls_after_final_are_refused(kernel: Kernel) -> None:
    run = await kernel.execute("FINAL(1)\nllm_query('more')")
    # a coroutine of the test before may be let go here, with a warning
    errors = [output["evalue"] for output in run.outputs if output["output_type"] == "error"]
    assert "the answer is recorded" in errors[0]


async def test_the_answer_dict_is_reported(kernel: Kernel) -> None:
    await kernel.begin()
    inspection = await kernel.inspect()
    assert (inspection.draft, inspection.draft_ready) == (False, False)
    await kernel.execute("answer['content'] = 'a draft'")
    inspection = await kernel.inspect()
    assert (inspection.draft, inspection.draft_ready) == (True, False)
    await kernel.execute("answer |= {'ready': True}")
    assert (await kernel.inspect()).draft_ready
    await kernel.execute("answer['ready'] = 'False'")
    assert not (await kernel.inspect()).draft_ready
    assert (await kernel.get(DRAFT)).text == "a draft"


async def test_a_new_prompt_forgets_the_old_answer(kernel: Kernel) -> None:
    await kernel.execute("FINAL(1)")
    await kernel.begin()
    assert (await kernel.inspect()).answer_state == "none"


async def test_a_draft_of_any_kind_is_seen_without_comparing_it(kernel: Kernel) -> None:
    await kernel.begin()
    await kernel.execute("import pandas as pd\nanswer['content'] = pd.DataFrame({'a': [1]})")
    assert (await kernel.inspect()).draft
    assert "a" in (await kernel.get(DRAFT)).text


async def test_a_rebound_answer_is_a_variable_of_the_models(kernel: Kernel) -> None:
    await kernel.begin()
    assert "answer" not in {v.name for v in (await kernel.inspect()).variables}
    await kernel.execute("answer = 'Paris'")
    assert "answer" in {v.name for v in (await kernel.inspect()).variables}
    assert (await kernel.get("answer")).text == "Paris"


async def test_a_number_too_long_to_read_back_is_still_an_answer(kernel: Kernel) -> None:
    await kernel.execute("import sys\nsys.set_int_max_str_digits(0)\nFINAL(2 ** 20_000)")
    assert len((await kernel.get()).text) == 6021
