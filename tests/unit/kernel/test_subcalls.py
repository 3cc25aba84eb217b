"""Sub-calls over the control channel: from everywhere a cell can call."""

from __future__ import annotations

import pytest

from rlm_jupyter.kernel.kernel import Kernel
from tests.unit.kernel.conftest import Answerer
from tests.unit.kernel.test_kernel import text_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def kernel(begun: Kernel) -> Kernel:
    return begun


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("llm_query('a')", "'echo a'"),
        ("llm_query_batched(['a', 'b'])", "['echo a', 'echo b']"),
        ("llm_query_batched([])", "[]"),
        ("rlm_query('a')", "'echo a'"),
        ("rlm_query_batched(iter(['a']))", "['echo a']"),
        ("await allm_query('a')", "'echo a'"),
        ("await allm_query_batched(['a'])", "['echo a']"),
        ("await arlm_query('a')", "'echo a'"),
        ("await arlm_query_batched(['a'])", "['echo a']"),
        ("%llm_query what's in it?", '"echo what\'s in it?"'),
        ("%llm_query -o out hello\nout", "'echo hello'"),
        ("%%llm_query\nline one\nline two", "'echo line one\\nline two'"),
        ("llm_query('\\ud800')", "'echo \\ud800'"),
    ],
)
async def test_a_call_is_answered(kernel: Kernel, source: str, shown: str) -> None:
    run = await kernel.execute(source)
    assert text_of(run) == shown


async def test_the_host_learns_kind_model_and_cell(kernel: Kernel, answerer: Answerer) -> None:
    await kernel.execute("rlm_query_batched(['a', 'b'], model='some/m')")
    (call,) = answerer.calls
    assert (call.kind, call.prompts, call.model) == ("rlm", ("a", "b"), "some/m")
    assert call.cell


DOCUMENT = "a long document, word by word " * 1000


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("llm_query('Summarize this', document)", 'prompt: llm_query(f"Summarize this\\n\\n{passage}").'),
        ("llm_query('Summarize this', model=document)", 'llm_query(f"Summarize this\\n\\n{passage}")'),
        ("llm_query(document, 'Summarize this')", 'llm_query(f"QUESTION\\n\\n{passage}")'),
        ("llm_query('What is it?', 'Paris')", "'Paris' is none."),
        ("llm_query('What is it?', [document])", "names a model, provider/model; ['a long"),
        ("await allm_query('Summarize this', document)", 'allm_query(f"Summarize this'),
        ("rlm_query(document, 'How many?')", 'rlm_query(f"QUESTION\\n\\n{passage}")'),
        (
            "llm_query_batched(['a', 'b'], document)",
            'llm_query_batched([f"QUESTION\\n\\n{passage}" for passage in passages])',
        ),
        ("rlm_query_batched([document], 'How many?')", "rlm_query_batched([f"),
        ("llm_query([document])", "llm_query takes one str; for a list of them use llm_query_batched."),
        ("llm_query({'a': document})", "llm_query takes a str, not dict"),
        ("llm_query_batched(document)", "takes a list of str; for a single one use llm_query."),
        ("llm_query_batched({document: 1})", "llm_query_batched takes a list of str, not dict."),
        ("llm_query_batched(None)", "llm_query_batched takes a list of str, not NoneType."),
        (f"FINAL_VAR('{DOCUMENT}')", "there is no variable 'a long document"),
    ],
)
async def test_a_call_of_another_form_is_refused_in_one_short_line(
    kernel: Kernel, answerer: Answerer, call: str, says: str
) -> None:
    await kernel.execute(f"document = {DOCUMENT!r}")
    run = await kernel.execute(call)
    [error] = [output for output in run.outputs if output["output_type"] == "error"]
    assert error["ename"] in {"TypeError", "NameError"}
    assert says in error["evalue"]
    assert "\n" not in error["evalue"]
    assert len(error["evalue"]) < 400
    assert answerer.calls == []


async def test_an_argument_that_there_is_not_is_one_of_the_function_as_the_model_knows_it(kernel: Kernel) -> None:
    run = await kernel.execute("llm_query('What?', answers=int)")
    assert run.outputs[0]["evalue"].startswith("llm_query() got an unexpected keyword argument 'answers'")


async def test_what_a_cell_names_as_a_model_reaches_the_host_cut(kernel: Kernel, answerer: Answerer) -> None:
    # past the guest's own check
    await kernel.execute("llm_query.__closure__[0].cell_contents.call('llm', ['x'], 'y' * 1_000_000)")
    (call,) = answerer.calls
    assert call.model is not None
    assert len(call.model) <= 200


async def test_a_failed_call_raises_with_the_reason(kernel: Kernel) -> None:
    run = await kernel.execute("llm_query('fail')")
    assert (run.outputs[0]["ename"], run.outputs[0]["evalue"]) == ("SubcallError", "it failed")


async def test_a_failed_item_of_a_batch_is_falsy_and_says_why(kernel: Kernel) -> None:
    run = await kernel.execute(
        "a, b = llm_query_batched(['x', 'fail'])\nprint(a, bool(b), b, isinstance(b, SubcallFailure), isinstance(b, str))"
    )
    assert text_of(run) == "echo x False [no answer: it failed] True False\n"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("llm_query(['a'])", "for a list of them use llm_query_batched"),
        ("llm_query(3)", "takes a str, not int"),
        ("llm_query_batched('abc')", "for a single one use llm_query"),
        ("llm_query_batched(['a', 3])", "item 1 is int"),
    ],
)
async def test_a_wrong_argument_is_named(kernel: Kernel, source: str, message: str, answerer: Answerer) -> None:
    run = await kernel.execute(source)
    assert message in run.outputs[0]["evalue"]
    assert not answerer.calls


async def test_64_threads_get_their_own_answers(kernel: Kernel) -> None:
    run = await kernel.execute(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(64) as pool:\n"
        "    replies = list(pool.map(llm_query, map(str, range(512))))\n"
        "replies == [f'echo {i}' for i in range(512)]"
    )
    assert text_of(run) == "True"


async def test_two_thousand_threads_at_once_lose_none(kernel: Kernel) -> None:
    run = await kernel.execute(
        "import threading\nreplies = []\n"
        "threads = [threading.Thread(target=lambda i=i: replies.append(llm_query(str(i)))) for i in range(2000)]\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\nlen(set(replies))"
    )
    assert text_of(run) == "2000"


async def test_gather_and_threads_with_loops_of_their_own(kernel: Kernel) -> None:
    run = await kernel.execute(
        "import asyncio\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "inner = await asyncio.gather(*[allm_query(str(i)) for i in range(100)])\n"
        "with ThreadPoolExecutor(4) as pool:\n"
        "    outer = list(pool.map(lambda p: asyncio.run(allm_query(p)), 'abcd'))\n"
        "(len(set(inner)), outer)"
    )
    assert text_of(run) == "(100, ['echo a', 'echo b', 'echo c', 'echo d'])"


async def test_large_prompts_and_replies_pass(kernel: Kernel, answerer: Answerer) -> None:
    run = await kernel.execute("len(llm_query('é' * 10_000_000))")
    assert text_of(run) == str(10_000_000 + len("echo "))


async def test_a_forked_child_gets_a_clear_error(kernel: Kernel) -> None:
    run = await kernel.execute(
        "import os\npid = os.fork()\n"
        "if pid == 0:\n"
        "    try: llm_query('x')\n"
        "    except RuntimeError as e: os._exit(42 if 'own process' in str(e) else 1)\n"
        "    os._exit(2)\n"
        "os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])"
    )
    assert text_of(run).endswith("42")


async def test_a_fault_of_the_host_reaches_the_cell_as_a_failure(kernel: Kernel) -> None:
    async def broken(call: object) -> list[str]:
        raise ZeroDivisionError("host")

    kernel._subcalls._answer = broken  # type: ignore[assignment]
    run = await kernel.execute("llm_query('x')")
    assert run.outputs[0]["evalue"] == "ZeroDivisionError: host"


async def test_a_call_without_images_imports_no_library_for_them(kernel: Kernel) -> None:
    run = await kernel.execute(
        "import sys\nllm_query('a')\n[name for name in ('PIL', 'matplotlib.figure') if name in sys.modules]"
    )
    assert text_of(run) == "[]"
