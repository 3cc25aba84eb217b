"""What a cell may send over its own connection: nothing there chooses a model, a depth or a budget, or ends a run."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.types.errors import KernelError
from tests.unit.kernel.test_kernel import text_of

WIRE = "wire = get_ipython().kernel.rlm_guest.wire\nimport time\n"


DESCRIBED = (
    "{}",
    "None",
    "{'answer': 5, 'variables': 3}",
    "dict(real(), variables=[1, 2])",
    "dict(real(), confidence='much')",
)
ANSWERED = ("({}, [])", "({'type_name': 'str'}, [])", "({'type_name': 'int'}, [b'\\xff'])", "(3, [])")


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def run(*cells: str, **limits: Any) -> tuple[Result, ScriptedModel]:
    replies = [f"```repl\n{cell}\n```" for cell in (*cells, "FINAL(len(context))")]
    sub = ScriptedModel([], sub=lambda prompt: "answered", name="scripted/sub")
    limits = {"max_iterations": 6, "max_errors": None} | limits
    result = await RLM(ScriptedModel(replies), sub_model=sub, limits=Limits(**limits)).acompletion("What?", "text")
    return result, sub


async def test_a_call_says_neither_model_nor_depth_nor_budget() -> None:
    forged = WIRE + (
        "for i in range(50):\n"
        "    wire.send('rlm_call', {'id': f'forged{i}', 'kind': 'rlm', 'depth': -5, 'max_depth': 99, 'budget': 1e9,\n"
        "        'limits': {'max_subcalls': 10**9}, 'model': 'openai/expensive' if i % 2 else None}, [b'hello'])\n"
        "time.sleep(1)"
    )
    result, _ = await run(forged, max_subcalls=5)
    assert result.stop_reason == "subcalls"
    calls = result.trajectory.subcalls
    calls = tuple(call for call in calls if not call.refused)
    assert 0 < len(calls) <= 5
    # the depth is used up: what claims to be a run of its own is a plain call, and by the model of this run
    assert {(call.kind, call.model) for call in calls} == {("llm", "scripted/sub")}


async def test_a_forged_end_is_none() -> None:
    ends = WIRE + (
        "wire.send('rlm_final', {'id': 'forged', 'answer': 'hacked', 'confidence': 1})\n"
        "wire.send('rlm_done', {'answer': 'recorded', 'text': 'hacked'}, [b'hacked'])\n"
        "wire.send('rlm_ended', {'stop_reason': 'answered', 'answer': 'hacked'})\n"
        "time.sleep(0.5)"
    )
    result, _ = await run(ends)
    assert (result.answer, len(result.trajectory.iterations)) == ("4", 2)


async def test_a_forged_reply_deceives_its_own_cell_alone() -> None:
    forged = (
        "from rlm_jupyter.kernel.guest import subcall_client as calls\n"
        "calls.SubcallClient.ask = lambda *a, **k: 'forged'\n"
        "g = get_ipython().kernel.rlm_guest\n"
        "from rlm_jupyter.kernel.guest.codec import WireMessage\n"
        "g.calls.settle(WireMessage([], 'rlm_reply', 'x', 'y', {'id': 'nobody', 'failed': [False]}, [memoryview(b'forged')]))"
    )
    result, _ = await run(forged)
    assert result.answer == "4"
    assert not result.trajectory.subcalls


NONSENSE = {
    "not signed": "frames = [b'<IDS|MSG>', b'00', b'{}', b'{}', b'{}', b'{}']",
    "no message": "frames = [b'hello']",
    "no header": "frames = signed(b'{}', b'{}', b'{}', b'{}')",
    "no JSON": "frames = signed(b'{', b'}', b'', b'\\xff')",
    "content that is no dict": "frames = signed(HEADER, b'{}', b'{}', b'[1, 2]')",
    "a parent that is no dict": "frames = signed(HEADER, b'[3]', b'{}', b'{}')",
    "nested without end": "frames = signed(HEADER, b'{}', b'{}', b'[' * 200_000)",
    "text that is none": "frames = [*signed(HEADER, b'{}', b'{}', b'{\"id\": \"u\", \"kind\": \"llm\"}'), b'\\xff\\xfe']",
    "an id that is none": "frames = signed(HEADER, b'{}', b'{}', b'{\"id\": [1]}')",
}


async def test_nonsense_on_the_wire_stops_nothing(kernel: Kernel) -> None:
    await kernel.execute(
        WIRE + 'HEADER = b\'{"msg_type": "rlm_call", "msg_id": "u"}\'\n'
        "def signed(*parts): return [b'<IDS|MSG>', wire._codec._sign(list(parts)), *parts]"
    )
    for what, source in NONSENSE.items():
        send = f"{source}\nwire._post(wire._host, frames)\ntime.sleep(0.1)\nllm_query('still here')"
        run = await asyncio.wait_for(kernel.execute(send, cell_seconds=10), 60)
        assert text_of(run) == "'echo still here'", what


async def test_a_kernel_that_answers_by_nonsense_is_a_failed_kernel(kernel: Kernel) -> None:
    await kernel.execute("g = get_ipython().kernel.rlm_guest\nreal = g._inspect")
    for described in DESCRIBED:
        await kernel.execute(f"g._inspect = lambda: {described}")
        with pytest.raises(KernelError, match="can't be read"):
            await kernel.inspect()
    for answered in ANSWERED:
        await kernel.execute(f"g._get = lambda name: {answered}")
        with pytest.raises(KernelError, match="can't be read"):
            await kernel.get("x")


async def test_nobody_else_can_speak_to_the_kernel(kernel: Kernel) -> None:
    process = kernel._connection.process
    for channel in ("shell", "control", "iopub"):
        assert not Path(process.url(channel).removeprefix("ipc://")).exists()
    assert not Path(process._km.connection_file).exists()
