"""`trajectory` in the kernel: what the model has done so far, as data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlm_jupyter import RLM, Limits
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.past import past
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.result import Result
from tests.support.sample_run import long_run, sample


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def block(*lines: str) -> str:
    return "\n".join(["I look.", "```repl", *lines, "```"])


async def run(*cells: str, limits: Limits | None = None, save: bool = False) -> Result:
    model = ScriptedModel([block(*cell.split("\n")) for cell in cells])
    return await RLM(model, limits=limits, save=save).acompletion("What?", "a text")


def printed(result: Result, number: int) -> str:
    [cell] = result.trajectory.iterations[number - 1].cells
    return "".join(output.get("text", "") for output in cell.outputs)


async def test_it_has_the_iterations_that_are_over_whole_and_counted_from_one() -> None:
    result = await run(
        "print('x' * 50_000, 'end')",
        "1 / 0",
        "one, two = trajectory\nprint(len(trajectory), one == trajectory[1] == trajectory[-2], trajectory[2:] == [two])\n"
        "print(len(one.outputs), one.number, two.code, 'ZeroDivisionError' in two.outputs, one.reply[:7])",
        "try:\n    trajectory[0]\nexcept IndexError as error:\n    print(error)\nprint(repr(trajectory)[:12], trajectory[9:])",
        "FINAL('done')",
        limits=Limits(output_chars=1_000),
    )
    assert printed(result, 3).splitlines() == ["2 True True", "50004 1 1 / 0 True I look."]
    assert "counted from 1, and there are 1 to 3" in printed(result, 4)
    assert "3 iterations []" in printed(result, 4)
    # a sub-call it is none, and the prompt says nothing of it
    assert not result.trajectory.subcalls
    assert "trajectory" not in result.trajectory.started.system + result.trajectory.started.opening


async def test_its_search_finds_lines_with_all_the_words() -> None:
    result = await run(
        "print('The heron.\\nThe BADGE of the heron is 7.')\nprint('y' * 900 + ' badge of a heron ' + 'z' * 900)",
        "print(*trajectory.search('heron badge'), sep='\\n')",
        "import re\nprint(trajectory.search(re.compile(r'is \\d'), most=1)[0].line)\nprint(trajectory.search('nowhere to be found'))",
        "try:\n    trajectory.search(' ')\nexcept ValueError as error:\n    print(error)",
        "FINAL('done')",
    )
    *code, first, second = printed(result, 2).splitlines()
    assert ["part='code'" in line for line in code] == [True, True]
    assert first == "Match(number=1, part='outputs', line='The BADGE of the heron is 7.')"
    assert "…yyy" in second
    assert len(second) < 400
    # the search before it is not found, nor what that has found
    assert printed(result, 3).splitlines() == ["The BADGE of the heron is 7.", "[]"]
    assert "words to look for" in printed(result, 4)


async def test_it_is_protected_and_no_variable_of_the_models() -> None:
    result = await run("trajectory = 1", "print(len(trajectory), SHOW_VARS())\n%who", "FINAL('done')")
    assert "put back: trajectory" in result.trajectory.iterations[1].notices[0]
    assert printed(result, 2) == "1 context: str [6]\ncontext_0: str [6]\nInteractive namespace is empty.\n"


async def test_a_kernel_that_has_died_and_one_that_is_new_have_it_again() -> None:
    cells = [
        "print('early')",
        "len(trajectory)",
        "import os; os._exit(1)",
        "print(trajectory[1].outputs, len(trajectory))",
    ]
    first = await run(*cells, save=True, limits=Limits(max_iterations=4))
    assert printed(first, 4) == "early 3\n"
    assert first.path is not None
    model = ScriptedModel([block("print([one.number for one in trajectory])"), block("FINAL('done')")])
    again = await RLM.aresume(first.path, model=model, max_iterations=9)
    assert printed(again, 5) == "[1, 2, 3, 4]\n"
    assert (await RLM.areplay(first.path)).same


async def test_children_and_further_prompts_have_their_own() -> None:
    root = [block("print('of the root')"), block("print(rlm_query('a part'))"), block("FINAL(len(trajectory))")]
    child = [block("print(len(trajectory))"), block("FINAL([one.outputs for one in trajectory])")]
    further = [block("print(len(trajectory))"), block("FINAL(trajectory[1].outputs)")]
    model = ScriptedModel([root[0], root[1], *child, root[2], *further])
    with RLM(model, limits=Limits(max_depth=2), save=False).completion("What?", "a text", keep_kernel=True) as result:
        assert printed(result, 2) == '["0"]\n'
        assert result.value == 2
        assert result.ask("And?").answer == "0"


async def test_a_cell_can_ask_for_nothing_else_with_it() -> None:
    ask = "trajectory._calls.call('trajectory', {prompts}, 'openai/gpt-5')"
    cell = (
        "for prompts in (['-1'], ['x'], [], ['1', '2'], ['9' * 5000]):\n    try:\n        print("
        + ask.format(prompts="prompts")
        + ")\n    except Exception as error:\n        print(type(error).__name__)"
    )
    result = await run(cell, "print(len(trajectory))", "FINAL('done')")
    assert printed(result, 1).count("no answer: a number of iterations") == 5
    assert printed(result, 2) == "1\n"
    assert result.answer == "done"


def test_each_iteration_is_handed_over_once_in_pages() -> None:
    trajectory = Trajectory([*long_run(30, 400_000)])
    known, pages = 0, 0
    while True:
        given = json.loads(past(trajectory, str(known)))
        assert [one["number"] for one in given["iterations"]][:1] == [known + 1]
        known, pages = known + len(given["iterations"]), pages + 1
        if not given["more"]:
            break
    assert (known, pages) == (30, 3)
    assert json.loads(past(trajectory, "30")) == {"iterations": [], "more": False}
    assert json.loads(past(Trajectory(), "0")) == {"iterations": [], "more": False}
    assert len(json.loads(past(trajectory, "0", before=2))["iterations"]) == 1
    # what goes on is not in it, nor what was skipped of it
    looked, _ = json.loads(past(Trajectory(sample()), "0"))["iterations"]
    assert looked["code"] == "print(context[:20])"


async def test_a_kernel_that_asks_and_does_not_read_is_not_given_it_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handed = 0

    def counted(text: str) -> bytes:
        nonlocal handed
        handed += len(text)
        return text.encode()

    monkeypatch.setattr("rlm_jupyter.kernel.subcalls.to_bytes", counted)
    flood = (
        "wire = get_ipython().kernel.rlm_guest.wire\n"
        "for i in range(60):\n    wire.send('rlm_call', {'id': f'f{i}', 'kind': 'trajectory', 'model': None}, [b'0'])\n"
        "import time; time.sleep(1)"
    )
    result = await run(
        "print('x' * 1_000_000)", flood, "print(len(trajectory), len(trajectory[-1].code) > 9)", "FINAL(1)"
    )
    assert handed < 25_000_000
    # the next cell has what it needs
    assert printed(result, 3) == "2 True\n"
