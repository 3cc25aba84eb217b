"""Images in sub-calls: twenty tasks over both wires, and what bytes arrive at the server."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.models import Model, load_model
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.record.export.bundle import WholeRun
from rlm_jupyter.record.export.html import to_html
from rlm_jupyter.record.export.notebook import to_notebook
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.images import LONGEST_SIDE, MOST_BYTES
from tests.support.loopback import Fault, Loopback, Request, Said
from tests.support.pictures import BLUE, GREEN, RED, claimed, images, is_about, jpeg, opened, png, sent

WIRES = pytest.mark.parametrize("wire", ["openai", "anthropic"])
ASKS = 'replies = llm_query_batched([["What is it?", image] for image in context])\nprint(replies)'


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def model_at(server: Loopback, wire: str, **options: Any) -> Model:
    if wire == "openai":
        return load_model("openai/gpt-5-mini", base_url=server.openai_url, api_key="some-key", **options)
    return load_model("anthropic/claude-sonnet-5", base_url=server.url, api_key="some-key", **options)


async def asked(
    wire: str, cell: str, context: object = "none", *, says: Any = "red", save: bool | str = False, **limits: Any
) -> tuple[Result, list[Request]]:
    """Run one cell whose sub-calls go to a loopback server, and return what came and what was sent."""
    root = ScriptedModel([f"```repl\n{cell}\n```", "```repl\nFINAL(str(globals().get('reply', 'none')))\n```"] * 2)
    with Loopback([says]) as server:
        rlm = RLM(root, sub_model=model_at(server, wire), save=save, limits=Limits(**{"max_iterations": 4, **limits}))
        result = await rlm.acompletion("What?", context)
        return result, list(server.requests)


def shown(result: Result) -> str:
    """All that the cells put out."""
    return str([cell.outputs for iteration in result.trajectory.iterations for cell in iteration.cells])


def as_sent(*expected: str | tuple[str, bytes]) -> Callable[[list[list[str | tuple[str, bytes]]]], bool]:
    return lambda parts: parts == [list(expected)]


def scaled(side: tuple[int, int], colour: Any) -> Callable[[list[list[str | tuple[str, bytes]]]], bool]:
    def holds(parts: list[list[str | tuple[str, bytes]]]) -> bool:
        [[_, image]] = parts
        assert isinstance(image, tuple)
        picture = opened(image[1])
        return picture.size == side and is_about(picture, colour) and len(image[1]) <= MOST_BYTES

    return holds


MAKE = "import io, PIL.Image as P\n"
TASKS: dict[str, tuple[str, object, Callable[[Any], bool]]] = {
    "the bytes of a PNG": (
        'reply = llm_query(["What is it?", context])', png(), as_sent("What is it?", ("image/png", png())),
    ),
    "the bytes of a JPEG": (
        'reply = llm_query(["What is it?", context])', jpeg(), as_sent("What is it?", ("image/jpeg", jpeg())),
    ),
    "an image before its question": (
        'reply = llm_query([context, "What is it?"])', png(), as_sent(("image/png", png()), "What is it?"),
    ),
    "two images with texts between them": (
        'reply = llm_query(("First:", context[0], "Second:", context[1], "Which is red?"))', [png(), jpeg()],
        as_sent("First:", ("image/png", png()), "Second:", ("image/jpeg", jpeg()), "Which is red?"),
    ),
    "the same image twice": (
        'reply = llm_query(["Alike?", context, context])', png(),
        as_sent("Alike?", ("image/png", png()), ("image/png", png())),
    ),
    "a PIL image": (
        MAKE + 'reply = llm_query(["What is it?", P.new("RGB", (40, 30), (30, 40, 220))])', "none", scaled((40, 30), BLUE),
    ),
    "a PIL image that is the context": (
        'reply = llm_query(["What is it?", context])', opened(png(50, 20)), scaled((50, 20), RED),
    ),
    "a PIL image with transparency": (
        MAKE + 'reply = llm_query(["What is it?", P.new("RGBA", (9, 9), (20, 180, 40, 128))])', "none", scaled((9, 9), GREEN),
    ),
    "a PIL image in CMYK": (
        MAKE + 'reply = llm_query(["What is it?", P.new("RGB", (9, 9), (30, 40, 220)).convert("CMYK")])', "none",
        scaled((9, 9), BLUE),
    ),
    "a PIL image that is too large": (
        MAKE + 'reply = llm_query(["What is it?", P.new("RGB", (4000, 1000), (200, 20, 20))])', "none",
        scaled((LONGEST_SIDE, LONGEST_SIDE // 4), RED),
    ),
    "bytes that are too large": (
        'reply = llm_query(["What is it?", context])', png(1000, 3136, BLUE), scaled((500, LONGEST_SIDE), BLUE),
    ),
    "bytes of a GIF": (
        MAKE + 's = io.BytesIO(); P.new("RGB", (12, 7), (20, 180, 40)).save(s, "GIF")\n'
        'reply = llm_query(["What is it?", s.getvalue()])', "none", scaled((12, 7), GREEN),
    ),
    "bytes of a WebP": (
        MAKE + 's = io.BytesIO(); P.new("RGB", (12, 7), (30, 40, 220)).save(s, "WEBP", lossless=True)\n'
        'reply = llm_query(["What is it?", memoryview(s.getvalue())])', "none", scaled((12, 7), BLUE),
    ),
    "a path": (
        'from pathlib import Path; Path("a.png").write_bytes(context)\nreply = llm_query(["What is it?", Path("a.png")])',
        png(), as_sent("What is it?", ("image/png", png())),
    ),
    "a figure": (
        "from matplotlib.figure import Figure\n"
        'f = Figure(figsize=(3, 2), dpi=100, facecolor=(200/255, 20/255, 20/255))\nreply = llm_query(["What is it?", f])', "none",
        scaled((300, 200), RED),
    ),
    "an image to be displayed": (
        'from IPython.display import Image\nreply = llm_query(["What is it?", Image(data=context, format="png")])', png(),
        as_sent("What is it?", ("image/png", png())),
    ),
    "an image of 16 bits": (
        MAKE + "import numpy; n = numpy.full((5, 4), 7000, dtype='uint16'); n[0, 0] = 65535; n[1:, :] = 65535\n"
        'reply = llm_query(["What is it?", P.fromarray(n)])', "none", scaled((4, 5), (255, 255, 255)),
    ),
    "an image in an awaited call": (
        'reply = await allm_query(["What is it?", context])', png(), as_sent("What is it?", ("image/png", png())),
    ),
    "a typed answer about an image": (
        'from typing import Literal\nreply = llm_query(["What is it?", context], answer=Literal["red", "blue"])', png(),
        lambda parts: parts[0][:2] == ["What is it?", ("image/png", png())] and "JSON" in parts[0][2],
    ),
    "a file with something behind its end": (
        'reply = llm_query(["What is it?", context + b"<script>alert(1)</script>"])', png(),
        as_sent("What is it?", ("image/png", png())),
    ),
}  # fmt: skip


@WIRES
@pytest.mark.parametrize("task", TASKS)
async def test_what_arrives(task: str, wire: str) -> None:
    cell, context, holds = TASKS[task]
    result, requests = await asked(wire, cell, context)
    assert result.answer == "red", shown(result)
    [request] = requests
    assert holds(sent(request)), [[part if isinstance(part, str) else part[0] for part in m] for m in sent(request)]
    [call] = result.trajectory.subcalls
    assert [(image.mime, image.data) for image in call.images] == images(request)
    assert call.usage.input_tokens == 100


@WIRES
async def test_a_batch_of_images_and_texts(wire: str) -> None:
    cell = 'reply = llm_query_batched([["One?", context[0]], "Two?", ["Three?", context[1]]])'
    result, requests = await asked(wire, cell, [png(), jpeg()], says=lambda messages: messages[-1]["content"])
    assert result.answer == "['One?', 'Two?', 'Three?']"
    assert sorted(len(images(request)) for request in requests) == [0, 1, 1]
    assert [len(call.images) for call in sorted(result.trajectory.subcalls, key=lambda call: call.ordinal)] == [1, 0, 1]


REFUSED = {
    "none": ('llm_query(["What is it?", b"hello"])', "part 1 is no image that can be sent: it can't be read as an image"),
    "an empty one": ('llm_query(["What is it?", b""])', "part 1 is no image that can be sent: it is empty"),
    "one that breaks off": ('llm_query(["What is it?", context[:50]])', "is no image that can be sent"),
    "a bomb": (f'llm_query(["What is it?", {claimed(60_000, 60_000)!r}])', "60,000 x 60,000 pixels, and"),
    "a number": ('llm_query(["What is it?", 5])', "part 1 is int, neither a str nor an image (a PIL image"),
    "no question": ("llm_query([context])", "say what is asked about the image"),
    "an image alone": ("llm_query(context)", 'takes an image beside its question: llm_query(["QUESTION", image])'),
    "an image as a second argument": ('llm_query("What?", context)', "takes an image in a list, beside its question"),
    "an image for a child": ('rlm_query(["What is it?", context])', "a model sees images by llm_query"),
    "an image in a batch": ('llm_query_batched(["What is it?", context])', "item 1 is an image: put it beside its question"),
    "a path that is not there": (
        'from pathlib import Path\nllm_query(["What?", Path("no.png")])', "no.png can't be read (No such file or directory)",
    ),
    "an address": (
        'from IPython.display import Image\nllm_query(["What?", Image(url="http://a.example/x.png")])', "only has an address",
    ),
    "too many": ('llm_query(["What is it?", *[context] * 21])', "21 images are too many, 20 fit a prompt"),
    "texts alone": ('llm_query(["a", "b.png"])', "for a list of them use llm_query_batched. No image is in it: a file is Path(…)."),
    "texts alone in a batch": ('llm_query_batched([["a", "b"]])', "a list without an image: join its texts"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_none_gets_one_line_and_costs_nothing(what: str) -> None:
    cell, says = REFUSED[what]
    result, requests = await asked("openai", cell, png())
    error = next(
        o for i in result.trajectory.iterations for c in i.cells for o in c.outputs if o["output_type"] == "error"
    )
    assert says in error["evalue"]
    assert "\n" not in error["evalue"]
    assert not requests
    assert not result.trajectory.subcalls


BLIND = {
    500: "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
    400: "Invalid content type. image_url is only supported by certain models.",
}


@WIRES
@pytest.mark.parametrize("code", BLIND)
@pytest.mark.parametrize("typed", ["", ", answer=int"])
async def test_a_server_that_takes_no_images_is_asked_once(typed: str, code: int, wire: str) -> None:
    cell = f'llm_query(["What is it?", context]{typed})'
    result, requests = await asked(wire, cell, png(), says=Fault.status(code, BLIND[code]))
    assert len(requests) == 1
    [call] = result.trajectory.subcalls
    assert call.failed
    assert f"refused the images ({code}). {BLIND[code]}" in call.text
    assert "name one that does" in call.text
    assert "\n" not in call.text


@WIRES
@pytest.mark.parametrize("code", BLIND)
@pytest.mark.parametrize(
    "cell",
    [
        "for image in context:\n    try:\n        llm_query(['What is it?', image])\n    except SubcallError as error:\n        print(error)",
        "print(llm_query_batched([['What is it?', image] for image in context], answer=int))",
    ],
)
async def test_a_server_that_takes_no_images_gets_no_second_one(cell: str, code: int, wire: str) -> None:
    images = [png(width) for width in range(3, 9)]
    root = ScriptedModel([f"```repl\n{cell}\n```", "```repl\nFINAL('done')\n```"])
    with Loopback([Fault.status(code, BLIND[code])]) as server:
        address = server.openai_url if wire == "openai" else server.url
        model = load_model(f"{wire}/of-my-own", base_url=address, api_key="some-key")
        result = await RLM(root, sub_model=model, save=False).acompletion("What?", images)
    assert len(server.requests) == 1
    calls = result.trajectory.subcalls
    assert [call.failed for call in calls] == [True] * 6
    assert [len(call.images) for call in calls] == [1, 0, 0, 0, 0, 0]
    assert all("No further image was sent to it." in call.text for call in calls[1:])


async def test_a_model_that_sees_none_is_told_what_there_is() -> None:
    root = ScriptedModel(['```repl\nprint(llm_query(["What is it?", context]))\n```', "```repl\nFINAL('done')\n```"])
    with Loopback(["I see nothing."]) as server:
        model = model_at(server, "openai", sees=False)
        result = await RLM(root, sub_model=model, save=False).acompletion("What?", png())
    [request] = server.requests
    assert sent(request) == [["What is it?\n\n[an image that you can't see: image/png, 8 x 6 pixels]"]]
    [call] = result.trajectory.subcalls
    assert not call.images  # none was sent
    assert any("sees no images" in notice for notice in result.trajectory.iterations[0].notices)
    # the answer is taken for one about the images by whoever reads it alone
    assert result.message == "openai/gpt-5-mini sees no images, so what it said of them is made up"


async def test_the_script_of_the_page_is_sent_an_image_as_a_model_that_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "images.md").read_text()
    Path("look.json").write_text(page.partition("```json\n")[2].partition("\n```\n")[0])
    result = await RLM("scripted/look.json", save=False).acompletion("What is it?", png())
    assert result.answer == "a red square"
    [call] = result.trajectory.subcalls
    assert (len(call.images), call.text) == (1, "a red square")


@WIRES
async def test_images_count_for_window_and_budget(wire: str) -> None:
    cell = 'llm_query(["What is it?", context])'
    with Loopback(["red"]) as server:
        small = model_at(server, wire, window=1_000)
        root = ScriptedModel([f"```repl\n{cell}\n```", *["```repl\nFINAL('done')\n```"] * 2])
        result = await RLM(root, sub_model=small, save=False).acompletion("What?", png(1500, 1500))
        assert not server.requests
    [call] = result.trajectory.subcalls
    assert "1 image (about" in call.text
    result, requests = await asked(wire, cell, png(1500, 1500), max_tokens=2_000)
    assert not requests


@WIRES
async def test_a_record_has_the_images_and_answers_again(wire: str, in_folder: Path) -> None:
    cell = 'reply = llm_query(["What is it?", context[0]])\nprint(reply)'
    result, requests = await asked(wire, cell, [png()], save="run.ipynb")
    assert len(requests) == 1
    assert result.path is not None
    [call] = result.trajectory.subcalls
    [kept] = [path for path in (in_folder / "run.rlm" / "objects").iterdir() if path.name == call.images[0].sha256]
    assert kept.read_bytes() == png()
    assert base64.b64encode(png()).decode() not in (in_folder / "run.rlm" / "journal.jsonl").read_text()
    replayed = await RLM.areplay("run.ipynb")
    assert (replayed.subcalls, replayed.same) == (1, True)


@WIRES
async def test_a_resumed_run_asks_only_for_another_image(wire: str, in_folder: Path) -> None:
    first = "```repl\nreply = llm_query(['What is it?', context])\n```"
    other = "```repl\nimport PIL.Image as P\nreply += llm_query(['What is it?', P.new('RGB', (9, 9))])\n```"
    with Loopback(["red", "black"]) as server:
        sub = model_at(server, wire)
        rlm = RLM(ScriptedModel([first]), sub_model=sub, save="run.ipynb", limits=Limits(max_iterations=1))
        await rlm.acompletion("What?", png())
        root = ScriptedModel([other, "```repl\nFINAL(reply)\n```"])
        result = await RLM.aresume("run.ipynb", model=root, sub_model=sub, max_iterations=4)
        assert [images(request)[0][1] == png() for request in server.requests] == [True, False], shown(result)
    assert result.answer == "redblack"


async def test_the_same_question_about_another_image_is_another_question() -> None:
    said: list[Said] = []
    cell = 'reply = llm_query_batched([["What is it?", image] for image in context])'
    root = ScriptedModel([f"```repl\n{cell}\n```", "```repl\nFINAL(reply)\n```"])
    with Loopback([Said("first"), Said("second")]) as server:
        model = model_at(server, "openai", temperature=0)
        context = [png(), png(), png(colour=BLUE)]
        result = await RLM(root, sub_model=model, save=False).acompletion("What?", context)
    assert not said
    assert len(server.requests) == 2  # a deterministic model is not asked twice about one image
    assert sorted(result.value) in (["first", "first", "second"], ["first", "second", "second"])


@WIRES
async def test_what_was_sent_is_seen_in_the_notebook_and_the_export(wire: str, in_folder: Path) -> None:
    large = io.BytesIO()
    PIL.Image.effect_noise((900, 700), 90).save(large, "PNG")
    cell = "reply = llm_query_batched([['What is it?', image] for image in context])"
    result, _ = await asked(wire, cell, [png(), large.getvalue()], save="run.ipynb")
    assert result.path is not None
    notebook = json.loads(result.path.read_text())
    [listed] = ["".join(c["source"]) for c in notebook["cells"] if c["metadata"]["rlm"]["role"] == "subcalls"]
    small, thumbnail = [
        base64.b64decode(found) for found in re.findall(r'<img src="data:image/\w+;base64,([^"]+)"', listed)
    ]
    assert small == png()
    assert max(opened(thumbnail).size) <= 240
    assert "\n\n" not in listed
    assert len(result.path.read_bytes()) < len(large.getvalue())
    page = to_html("run.ipynb")
    whole = {base64.b64decode(found) for found in re.findall(r'src="data:image/png;base64,([^"]+)"', page)}
    assert {png(), large.getvalue()} <= whole
    alone = to_notebook(WholeRun.gather("run.ipynb"))
    (in_folder / "elsewhere").mkdir()
    (in_folder / "elsewhere" / "one.ipynb").write_bytes(alone)
    calls = Trajectory.load(in_folder / "elsewhere" / "one.ipynb").subcalls
    assert {image.data for call in calls for image in call.images} == {png(), large.getvalue()}
