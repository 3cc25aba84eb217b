"""Figures that a cell draws, and images as context: what a root model that sees is shown, over both wires."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import Any

import PIL.Image
import pytest

from rlm_jupyter import RLM, Limits, PdfPages, Result
from rlm_jupyter.models import Model, load_model
from rlm_jupyter.models.abilities import Abilities, abilities_of
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.run.conversation import Conversation
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.images import MOST_IMAGES
from tests.support.loopback import Fault, Loopback, Request
from tests.support.pictures import BLUE, GREEN, RED, images, is_about, jpeg, opened, png, sent
from tests.unit.run.test_files import scanned

WIRES = pytest.mark.parametrize("wire", ["openai", "anthropic"])
END = "```repl\nFINAL('done')\n```"
SHOW = "from IPython.display import display, Image\n"


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def root_at(server: Loopback, wire: str, **options: Any) -> Model:
    if wire == "openai":
        return load_model("openai/gpt-5-mini", base_url=server.openai_url, api_key="some-key", **options)
    return load_model("anthropic/claude-sonnet-5", base_url=server.url, api_key="some-key", **options)


async def driven(
    wire: str, *cells: str, context: object = "text", seeing: dict[str, Any] | None = None, **options: Any
) -> tuple[Result, list[Request]]:
    """Let a root model behind a server write these cells, and then end."""
    replies = [f"```repl\n{cell}\n```" for cell in cells]
    given: dict[str, Any] = {"save": False, "limits": Limits(max_iterations=len(cells) + 3)} | options
    with Loopback([*replies, END]) as server:
        result = await RLM(root_at(server, wire, **(seeing or {})), **given).acompletion("What?", context)
        return result, list(server.requests)


def shown(data: bytes) -> str:
    return f"display(Image(data={data!r}, format={'png' if data[1:4] == b'PNG' else 'jpeg'!r}))"


def stable(message: Any) -> Any:
    """A message without the mark up to which it is cached, which moves on."""
    content = message["content"]
    if isinstance(content, list):
        content = [{key: value for key, value in part.items() if key != "cache_control"} for part in content]
        if [part["type"] for part in content] == ["text"]:
            content = content[0]["text"]
    return {**message, "content": content}


@WIRES
async def test_a_figure_that_a_cell_draws_is_seen(wire: str) -> None:
    plot = (
        "import matplotlib\nmatplotlib.use('module://matplotlib_inline.backend_inline')\nimport matplotlib.pyplot as plt\n"
        "plt.figure(figsize=(3, 2)).add_axes((0, 0, 1, 1)).set_facecolor((200/255, 20/255, 20/255)); plt.show()"
    )
    result, requests = await driven(wire, plot)
    assert result.answer == "done"
    [figure] = images(requests[1])
    drawn = result.trajectory.iterations[0].cells[0].outputs[-1]["data"]["image/png"]
    assert figure == ("image/png", base64.b64decode(drawn))
    assert is_about(opened(figure[1]), RED)
    *_, last = sent(requests[1])
    assert last[0] == "Figure 1:"
    assert isinstance(last[2], str)
    assert ": figure 1]" in last[2]
    assert "shown in the notebook" not in last[2]
    assert "figures that it draws or displays are shown to you" in requests[0].messages[0]["content"]


@WIRES
async def test_the_conversation_stays_as_it_was_sent(wire: str) -> None:
    cells = [SHOW + shown(png(colour=RED)), shown(jpeg()) + "\n" + shown(png(colour=BLUE)), "print(1)"]
    _, requests = await driven(wire, *cells)
    assert [len(images(request)) for request in requests] == [0, 1, 3, 3]
    for before, after in itertools.pairwise(requests):
        first, then = (list(map(stable, request.body["messages"])) for request in (before, after))
        assert then[: len(first)] == first
    assert [data for _, data in images(requests[3])] == [png(), jpeg(), png(colour=BLUE)]


@WIRES
async def test_a_large_figure_is_scaled_and_counted(wire: str) -> None:
    result, requests = await driven(wire, "import PIL.Image; PIL.Image.new('RGB', (3136, 1000), (20, 180, 40))")
    [(_, data)] = images(requests[1])
    assert opened(data).size == (1_568, 500)
    assert is_about(opened(data), GREEN)
    count = abilities_of(load_model(result.trajectory.started.model, api_key="k")).image_tokens
    tokens = count(1_568, 500)
    known = Conversation(count)
    blind = Conversation()
    assert known.tokens(result.trajectory) == blind.tokens(result.trajectory) + tokens
    assert tokens == (1_929 if wire == "openai" else 1_062)
    assert result.trajectory.iterations[0].images[0].said == "image/png, 1,568 x 500 pixels"


@WIRES
@pytest.mark.parametrize(
    ("options", "seeing", "is_seen"),
    [
        ({}, {}, True),
        ({"see_figures": "never"}, {}, False),
        ({}, {"sees": False}, False),
        ({"see_figures": "always"}, {"sees": False}, True),
    ],
)
async def test_who_is_shown_figures(wire: str, options: Any, seeing: Any, is_seen: bool) -> None:
    result, requests = await driven(wire, SHOW + shown(png()), seeing=seeing, **options)
    assert len(images(requests[1])) == is_seen
    last = requests[1].messages[-1]["content"]
    assert ("[image/png, 8 x 6 pixels: figure 1]" in last) == is_seen
    assert ("[image/png, 8 x 6 pixels, 78 bytes: shown in the notebook]" in last) != is_seen
    assert len(result.trajectory.iterations[0].images) == is_seen


async def test_of_many_figures_the_last_are_seen_each_once() -> None:
    cell = SHOW + "\n".join(shown(png(9 + number, 5)) for number in (1, 2, 3, 3, 4, 5))
    _, requests = await driven("openai", cell)
    assert [opened(data).width for _, data in images(requests[1])] == [11, 12, 13, 14]
    text = requests[1].messages[-1]["content"]
    assert text.count(": figure 2]") == 2
    assert "[image/png, 10 x 5 pixels, 78 bytes: shown in the notebook]" in text


async def test_what_is_no_image_is_only_told_of() -> None:
    cells = (
        "from IPython.display import publish_display_data as p\n"
        "p({'image/svg+xml': '<svg/>'}); p({'image/png': 'aGVsbG8='}); p({'image/png': '!!'}); p({'image/jpeg': ['x']})\n"
        "p({'text/html': '<img src=x onerror=alert(1)>'})"
    )
    result, requests = await driven("anthropic", cells)
    assert result.answer == "done"
    assert not images(requests[1])
    assert "[image/png, 6 bytes: shown in the notebook]" in requests[1].messages[-1]["content"]


async def test_older_figures_make_room_ten_at_a_time() -> None:
    draws = [SHOW + "\n".join(shown(png(20 + 4 * turn + n, 5)) for n in range(4)) for turn in range(7)]
    _, requests = await driven("openai", *draws)
    counts = [len(images(request)) for request in requests]
    assert counts == [0, 4, 8, 12, 16, 20, 12, 16]
    assert max(counts) <= MOST_IMAGES
    assert opened(images(requests[-1])[-1][1]).width == 20 + 4 * 6 + 3


@WIRES
async def test_a_resumed_run_shows_the_same_figures(wire: str) -> None:
    with Loopback([f"```repl\n{SHOW}{shown(png())}\n```", f"```repl\n{shown(png(colour=BLUE))}\n```", END]) as server:
        model = root_at(server, wire)
        await RLM(model, save="run.ipynb", limits=Limits(max_iterations=1)).acompletion("What?", "text")
        forced = len(server.requests) - 1
        again = await RLM.aresume("run.ipynb", model=model, max_iterations=5)
        assert again.answer == "done"
        after = server.requests[1 + forced]
        assert images(after)[0] == ("image/png", png())
    replayed = await RLM.areplay("run.ipynb")
    assert replayed.same


async def test_a_root_that_takes_no_images_ends_the_run_with_one_line() -> None:
    said = "image input is not supported - hint: you may need to provide the mmproj"
    with Loopback([f"```repl\n{SHOW}{shown(png())}\n```", Fault.status(500, said)]) as server:
        model = root_at(server, "openai")
        with pytest.raises(Exception, match=r"refused the images \(500\)") as caught:
            await RLM(model, save=False).acompletion("What?", "text")
        assert len(server.requests) == 2
    assert "\n" not in str(caught.value)


async def test_a_model_of_ones_own_may_see() -> None:
    class Seeing(ScriptedModel):
        abilities = Abilities(sees=True)

    root = Seeing([f"```repl\n{SHOW}{shown(png())}\n```", END])
    await RLM(root, save=False).acompletion("What?", "text")
    [*_, last] = root.requests[1]
    assert [part if isinstance(part, str) else part.data for part in last.parts][:2] == ["Figure 1:", png()]
    assert last.image_tokens >= 1_024


def test_see_figures_is_one_of_three() -> None:
    with pytest.raises(ConfigurationError, match=r"^see_figures is auto, always, never, not 'maybe'"):
        RLM(ScriptedModel([]), see_figures="maybe")  # type: ignore[arg-type]


CONTEXTS = {
    "a photograph": (jpeg(640, 480), "`context` is a bytes: image/jpeg, 640 x 480 pixels, "),
    "a PIL image": (PIL.Image.new("RGB", (64, 48)), "`context` is an Image: 64 x 48 pixels."),
    "a list": ([png(), jpeg(40, 30)], "images: 1 image/png, 1 image/jpeg; from 8 x 6 pixels to 40 x 30 pixels"),
    "a dict": ({"a": png(), "b": png(9, 9)}, "'a': bytes, image/png, 8 x 6 pixels"),
    "pages": (PdfPages(scanned(3)), "`context` is a PdfPages: 3 pages."),
}


@pytest.mark.parametrize("what", CONTEXTS)
async def test_the_first_message_says_what_images_there_are(what: str) -> None:
    context, says = CONTEXTS[what]
    result, requests = await driven("openai", "print(type(context).__name__)", context=context)
    assert result.answer == "done"
    first = requests[0].messages[1]["content"]
    assert says in first
    assert "\\x89PNG" not in first
    assert " at 0x" not in first


@WIRES
async def test_pages_of_a_pdf_are_rendered_in_the_kernel_and_seen(wire: str) -> None:
    cell = 'reply = llm_query_batched([["Who signed?", page] for page in context[1:]])\ncontext[0]'
    with Loopback([f"```repl\n{cell}\n```", "nobody", "nobody", END]) as server:
        result = await RLM(root_at(server, wire), save=False).acompletion("Who?", PdfPages(scanned(3)))
        assert result.answer == "done"
        first, second, third = (images(request) for request in server.requests[1:4])
    assert len(first) == len(second) == len(third) == 1
    assert {opened(data).size for _, data in (*first, *second, *third)} == {(1_176, 1_568)}


def test_the_examples_of_the_docs(in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "images.md").read_text()
    first, cell, second = (part.partition("```")[0] for part in page.split("```python\n")[1:])
    (in_folder / "photos").mkdir()
    for name, colour in (("a.png", RED), ("b.png", BLUE)):
        (in_folder / "photos" / name).write_bytes(png(colour=colour))
    (in_folder / "contract.pdf").write_bytes(scanned(2))

    def reply(messages: list[dict[str, str]]) -> str:
        asked = [part for message in sent(server.requests[-1]) for part in message]
        if "Is a part damaged? Reply yes or no." in asked:
            [image] = [part for part in asked if isinstance(part, tuple)]
            return "yes, it is" if is_about(opened(image[1]), RED) else "no"
        if "Who signed?" in asked:
            return "Abel"
        ask = 'FINAL(llm_query(["Who signed?", context[-1]]))' if "PdfPages" in str(asked) else cell
        return f"```repl\n{ask}\n```"

    with Loopback([reply]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "some-key")
        monkeypatch.setenv("OPENAI_API_KEY", "some-key")
        names: dict[str, Any] = {}
        for source, answer in ((first, ["a.png"]), (second, "Abel")):
            exec(compile(source, "example", "exec", dont_inherit=True), names)
            assert names["result"].value == answer
