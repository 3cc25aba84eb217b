"""What a cell may send as an image over its own connection: the host takes nobody's word for it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models import load_model
from rlm_jupyter.models.scripted import ScriptedModel
from tests.support.forged import ANSWERED
from tests.support.loopback import Loopback, Request
from tests.support.pictures import chunk, claimed, images, jpeg, png

pytestmark = pytest.mark.slow

WIRE = ANSWERED + (
    "def send(parts, *buffers, kind='llm', **more):\n"
    "    g.wire.send('rlm_call', {'id': 'forged', 'kind': kind, 'model': None, 'parts': parts} | more, list(buffers))\n"
    "    wait_for('forged')\n"
)


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


async def forged(cell: str) -> tuple[Result, list[Request]]:
    replies = [f"```repl\n{WIRE}{cell}\nprint('sent')\n```", "```repl\nFINAL(llm_query('still here'))\n```"]
    with Loopback(["still here"]) as server:
        sub = load_model("openai/gpt-5-mini", base_url=server.openai_url, api_key="some-key")
        result = await RLM(ScriptedModel(replies), sub_model=sub, limits=Limits(max_iterations=4)).acompletion(
            "What?", "text"
        )
        return result, list(server.requests)


SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
BROKEN = png()[:20] + b"\0\0\0\0" + png()[24:]
ATTEMPTS: dict[str, tuple[str, str]] = {
    "a drawing with a script": (f"send(['ti'], b'Look', {SVG!r})", "it is no PNG or JPEG image"),
    "a page": ("send(['ti'], b'Look', b'<!doctype html><script>alert(1)</script>')", "it is no PNG or JPEG image"),
    "a type that is claimed": (f"send(['ti'], b'Look', {SVG!r}, mime='image/png')", "it is no PNG or JPEG image"),
    "the head of a PNG before a page": (f"send(['ti'], b'Look', {png()[:33] + SVG!r})", "it is no PNG or JPEG image"),
    "a path": ("send(['ti'], b'Look', b'/etc/passwd')", "it is no PNG or JPEG image"),
    "an address": ("send(['ti'], b'Look', b'file:///etc/passwd')", "it is no PNG or JPEG image"),
    "nothing": ("send(['ti'], b'Look', b'')", "it is empty"),
    "a bomb": (f"send(['ti'], b'Look', {claimed(100_000, 100_000)!r})", "it has 100,000 x 100,000 pixels"),
    "a bomb of one line": (f"send(['ti'], b'Look', {claimed(2**31 - 1, 1)!r})", "it has 2,147,483,647 x 1 pixels"),
    "a bomb within the sides": (f"send(['ti'], b'Look', {claimed(8_000, 8_000)!r})", "16,777,216 in all are the most"),
    "no pixels": (f"send(['ti'], b'Look', {claimed(0, 5)!r})", "it has no pixels"),
    "a size that its checksum denies": (f"send(['ti'], b'Look', {BROKEN!r})", "it is no PNG or JPEG image"),
    "a JPEG that breaks off": (f"send(['ti'], b'Look', {jpeg()[:100]!r})", "it is no PNG or JPEG image"),
    "too many bytes": (
        f"send(['ti'], b'Look', {png()[:-12]!r} + (4_000_000).to_bytes(4) + b'teXt' + bytes(4_000_004) + {chunk(b'IEND', b'')!r})",
        "bytes, and 3,750,000 are the most",
    ),
    "thousands of images": (f"send(['t' + 'i' * 5000], b'Look', *[{png()!r}] * 5000)", "it has 5,000 images, and 20 are"),
    "an image for a child": (f"send(['ti'], b'Look', {png()!r}, kind='rlm')", "images are for llm_query"),
    "an image without a question": (f"send(['i'], {png()!r})", "there is no question beside the image"),
    "parts that are no list": (f"send('ti', b'Look', {png()!r})", "does not say which of its parts are images"),
    "parts that are no kinds": (f"send(['tx'], b'Look', {png()!r})", "does not say which of its parts are images"),
    "parts that are not there": (f"send(['ti', 'ti'], b'Look', {png()!r})", "does not say which of its parts are images"),
    "more parts than it says": (f"send(['t'], b'Look', {png()!r})", "does not say which of its parts are images"),
    "parts that are numbers": (f"send([5, {{}}], b'Look', {png()!r})", "does not say which of its parts are images"),
}  # fmt: skip


@pytest.mark.parametrize("what", ATTEMPTS)
async def test_what_is_no_image_reaches_no_model(what: str) -> None:
    cell, says = ATTEMPTS[what]
    result, requests = await forged(cell)
    assert result.answer == "still here"
    [request] = requests
    assert not images(request)
    refused = [call for call in result.trajectory.subcalls if call.failed]
    assert [says in call.text for call in refused] == [True], refused
    assert not refused[0].images
    assert refused[0].cost in (0, None)


SLOW = {
    "bytes that fill up a JPEG": ("b'\\xff\\xd8' + b'\\xff' * 3_700_000", 5),
    "more of them than an image has": ("b'\\xff\\xd8' + b'\\xff' * 19_000_000", 1),
    "segments of a JPEG without anything in them": ("b'\\xff\\xd8' + b'\\xff\\xe1\\0\\2' * 900_000", 5),
    "chunks of a PNG without anything in them": (f"{png()[:33]!r} + b'\\0\\0\\0\\0teXt\\0\\0\\0\\0' * 310_000", 5),
}


@pytest.mark.parametrize("what", SLOW)
async def test_no_image_stops_the_hosts_loop(what: str) -> None:
    data, images = SLOW[what]
    longest, last = 0.0, time.thread_time()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.02)
            longest, last = max(longest, time.thread_time() - last), time.thread_time()

    ticking = asyncio.create_task(tick())
    cell = f"send(['t' + 'i' * {images}] * 4, *[b'Look', *[{data}] * {images}] * 4)"
    result, requests = await forged(cell)
    ticking.cancel()
    assert result.answer == "still here"
    assert len(requests) == 1
    assert [call.text.partition(": ")[0] for call in result.trajectory.subcalls if call.failed] == [
        "part 1 is no image that can be sent"
    ] * 4
    assert longest < 0.8, longest  # its own work, on a loaded machine, too; it had been 2 s and more


async def test_text_that_is_none_beside_an_image_stops_nothing() -> None:
    result, requests = await forged(f"send(['ti'], b'\\xff\\xfe', {png()!r})")
    assert result.answer == "still here"
    assert len(requests) == 1


async def test_a_tool_gets_no_image() -> None:
    result, requests = await forged(f"send(['ti'], b'tool()', {png()!r}, kind='tool')")
    assert result.answer == "still here"
    assert len(requests) == 1
    assert [call.failed for call in result.trajectory.subcalls if call.kind == "tool"] == [True]
