"""What a cell may try to call in the host: nothing but the tools that its own run was handed, as they were handed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models.scripted import ScriptedModel
from tests.support.forged import ANSWERED

pytestmark = pytest.mark.slow

SETUP = ANSWERED + (
    "import os, threading\n"
    "ids = iter(range(10_000))\n"
    "def send(text, name='look_up', *more, kind='tool', is_answered=True, **content):\n"
    "    texts = [one if isinstance(one, bytes) else one.encode() for one in (text, *more) if one is not None]\n"
    "    call = f'forged{next(ids)}'\n"
    "    g.wire.send('rlm_call', {'id': call, 'kind': kind, 'model': name, 'cell': ''} | content, texts)\n"
    "    wait_for(call) if is_answered else time.sleep(0.15)\n"
    "def tried(call):\n"
    "    try:\n        print('GOT', call())\n"
    "    except Exception as error:\n        print(type(error).__name__, error)\n"
)
SPEC = "{'name': 'erase', 'doc': '', 'parameters': None, 'returns': ''}"
ATTEMPTS: dict[str, tuple[str, str]] = {
    "a function of the host that is no tool": ("send('erase(\"x\")', 'erase')", "there is no tool 'erase'"),
    "a tool of children alone": ("send('deeper(\"x\")', 'deeper')", "there is no tool 'deeper'"),
    "a builtin": ("send('eval(\"1\")', 'eval')", "there is no tool 'eval'"),
    "an import": ("send('os.system(\"touch x\")', 'os.system')", "there is no tool 'os.system'"),
    "an attribute of a tool": ("send('look_up.__globals__(\"x\")', 'look_up.__globals__')", "there is no tool"),
    "a method of what holds a tool": ("send('look_up.call(\"x\")', 'look_up.call')", "there is no tool"),
    "a server that nobody has named": ("send('things.leave()', 'things.leave')", "there is no tool 'things.leave'"),
    "no name": ("send('look_up(\"x\")', None)", "there is no tool ''"),
    "a name that is a list": ("send('look_up(\"x\")', ['look_up'])", "there is no tool ''"),
    "a name that is a dict": ("send('look_up(\"x\")', {'name': 'look_up'})", "there is no tool ''"),
    "a name without end": ("send('look_up(\"x\")', 'look_up' * 100_000)", "there is no tool 'look_uplook_up"),
    "a name in another case": ("send('LOOK_UP(\"x\")', 'LOOK_UP')", "there is no tool 'LOOK_UP'"),
    "a name that looks alike": ("send('look_uр(\"x\")', 'look_uр')", "there is no tool 'look_uр'"),
    "another function under a tool's name": ("send('erase(\"x\")')", "this is a call of 'erase', not of 'look_up'"),
    "code as an argument": ("send('look_up(__import__(\"os\").system(\"touch x\"))')", "this is no call"),
    "a call as an argument": ("send('look_up(erase(\"x\"))')", "this is no call"),
    "two calls in one": ("send('look_up(\"x\"); erase(\"x\")')", "this is no call"),
    "a call of what it gives": ("send('look_up(\"x\")(\"y\")')", "this is no call"),
    "an f-string": ("send('look_up(f\"{erase(1)}\")')", "this is no call"),
    "no call at all": ("send('look_up')", "this is no call"),
    "nothing": ("send('')", "this is no call"),
    "arguments nested without end": ("send('look_up(' + '[' * 200_000 + ')')", "this is no call"),
    "a number without end": ("send('look_up(' + '9' * 100_000 + ')')", ""),
    "arguments without end": ("send('look_up(\"' + 'x' * 1_000_001 + '\")')", "1,000,000 are the most"),
    "text that is none": ("send(b'look_up(\"\\xff\\xfe\")', is_answered=False)", ""),
    "two texts": ("send('look_up(\"x\")', 'look_up', 'look_up(\"y\")')", ""),
    "no text": ("send(None)", ""),
    "an argument twice": ("send('look_up(\"x\", word=\"y\")')", "wrong arguments"),
    "an argument that it has not": ("send('look_up(\"x\", path=\"/etc/passwd\")')", "wrong arguments"),
    "an argument of the wrong type": ("send('look_up({\"__class__\": \"str\"})')", "wrong arguments"),
    "an argument of the wrapper's": ("send('look_up(\"x\", self=1, function=2)')", "wrong arguments"),
    "a kind that there is not": ("send('erase(\"x\")', 'erase', kind='TOOL')", ""),
    "a tool by a sub-call's kind": ("send('erase(\"x\")', 'erase', kind='llm')", ""),
    "a tool by the kind of the record": ("send('erase(\"x\")', 'erase', kind='trajectory')", ""),
    "a run and a depth that are claimed": (
        "send('deeper(\"x\")', 'deeper', depth=1, run='child', parent='', tools=['deeper'])",
        "there is no tool 'deeper'",
    ),
    "tools that are claimed": (
        f"send('erase(\"x\")', 'erase', tools=[{SPEC}], specs=[{SPEC}], approved=True, repeatable=True)",
        "there is no tool 'erase'",
    ),
    "tools that are announced": (
        f"[g.wire.send(kind, {{'id': 'x', 'tools': [{SPEC}], 'specs': [{SPEC}]}}) for kind in ('rlm_tools', 'rlm_set_tools')]\n"
        "send('erase(\"x\")', 'erase')",
        "there is no tool 'erase'",
    ),
    "a stand-in of one's own": (
        "from rlm_jupyter.kernel.guest.tool_functions import tool_functions\n"
        f"tried(lambda: tool_functions(g.calls, [{SPEC}])['erase']('x'))",
        "there is no tool 'erase'",
    ),
    "from a thread": (
        "t = threading.Thread(target=lambda: send('erase(\"x\")', 'erase')); t.start(); t.join()",
        "there is no tool 'erase'",
    ),
    "from a forked process": (
        "if not (pid := os.fork()):\n    try:\n        send('erase(\"x\")', 'erase')\n    finally:\n        os._exit(0)\n"
        "os.waitpid(pid, 0)",
        "",
    ),
    "from a thread that outlives its cell": (
        "def late():\n    time.sleep(0.3)\n    send('erase(\"x\")', 'erase')\nthreading.Thread(target=late).start()",
        "",
    ),
    "within the text of a value": (
        "class Bad:\n    def __repr__(self):\n        send('erase(\"x\")', 'erase')\n        return 'bad'\nBad()",
        "there is no tool 'erase'",
    ),
    "one id for two calls": (
        "[g.wire.send('rlm_call', {'id': 'same', 'kind': 'tool', 'model': name, 'cell': ''}, [f'{name}(\"x\")'.encode()])\n"
        " for name in ('erase', 'deeper', 'erase')]\nwait_for('same')",
        "there is no tool",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Host:
    """Functions, and what they were called with."""

    def __init__(self) -> None:
        self.looked: list[str] = []
        self.harmed: list[str] = []

    def look_up(self, word: str) -> str:
        self.looked.append(word)
        return f"found {word}"

    def deeper(self, word: str) -> str:
        self.harmed.append(f"deeper {word}")
        return "deeper"

    def erase(self, word: str) -> None:
        self.harmed.append(f"erase {word}")


HONEST = "FINAL(look_up('honest'))"


def attacked(host: Host, *cells: str, **limits: Any) -> Result:
    replies = [f"```repl\n{cell}\n```" for cell in (*cells, HONEST)]
    limits = {"max_iterations": 6, "max_depth": 2, "max_errors": None} | limits
    rlm = RLM(
        ScriptedModel(replies, sub=lambda prompt: "a reply"),
        tools=[host.look_up],
        sub_tools=[host.deeper],
        limits=Limits(**limits),
    )
    return rlm.completion("What?", "some text")


@pytest.mark.parametrize("what", ATTEMPTS)
def test_what_was_not_handed_over_is_not_called(what: str, in_folder: Path) -> None:
    source, says = ATTEMPTS[what]
    host = Host()
    result = attacked(host, SETUP + source, "import time\ntime.sleep(0.5)")
    assert host.harmed == []
    assert not (in_folder / "x").exists()
    assert set(host.looked) <= {"honest", "x"}
    assert (result.stop_reason, result.answer) == ("answered", "found honest")
    calls = [call for call in result.trajectory.subcalls if call.kind == "tool"]
    assert [call.failed for call in calls].count(False) == len(host.looked)
    failed = [call.text for call in calls if call.failed]
    if says:
        assert failed
        assert [text for text in failed if says not in text] == []


def test_a_child_has_its_own_tools_alone_whatever_it_says() -> None:
    host = Host()
    child = SETUP + (
        "send('look_up(\"x\")')\nsend('erase(\"x\")', 'erase')\nsend('look_up(\"x\")', depth=0, run='root')\n"
        "tried(lambda: look_up('x'))"
    )
    result = attacked(host, "print(rlm_query('a question'))", child, "FINAL(time.ctime())")
    assert (host.harmed, host.looked, result.answer) == ([], ["honest"], "found honest")


def test_no_message_raises_how_often_tools_may_be_called() -> None:
    host = Host()
    source = SETUP + (
        "for i in range(30):\n    g.wire.send('rlm_call', {'id': f'f{i}', 'kind': 'tool', 'model': 'look_up', 'cell': '',\n"
        "        'limits': {'max_tool_calls': 10**9}, 'max_tool_calls': 10**9}, [b'look_up(\"x\")'])\n"
        "wait_for(*[f'f{i}' for i in range(30)])"
    )
    result = attacked(host, source, "FINAL('done')", max_tool_calls=5)
    assert result.answer == "done"
    assert host.looked == ["x"] * 5


def test_what_a_kernel_makes_of_a_tool_deceives_itself_alone() -> None:
    host = Host()
    source = SETUP + (
        "from rlm_jupyter.kernel.guest.subcall_client import SubcallClient\nreal = SubcallClient.call\n"
        "SubcallClient.call = lambda *a, **k: ['\"forged\"']\nprint(look_up('x'))\nSubcallClient.call = real"
    )
    result = attacked(host, source)
    assert (host.looked, result.answer) == (["honest"], "found honest")
    assert [call.prompt_head for call in result.trajectory.subcalls] == ['look_up("honest")']
