"""Images of sub-calls in a real JupyterLab: they are seen below the cell that asked, also where they were scaled down."""

from __future__ import annotations

import pytest

from tests.jupyterlab.conftest import Open, Waiting

pytestmark = pytest.mark.slow

IMAGES = """import io, PIL.Image
def noise(side):
    stream = io.BytesIO()
    PIL.Image.effect_noise((side, side), 90).save(stream, "PNG")
    return stream.getvalue()
photos = [noise(16), noise(900)]"""
CELL = """I look at the photos.
```repl
replies = llm_query_batched([["What is it?", photo] for photo in context])
print(len(replies))
```"""


def test_the_images_that_were_sent_stand_below_their_cell(opened: Open, model: Waiting) -> None:
    model.play([CELL, "```repl\nFINAL('noise')\n```"], opened=2)
    page = opened(IMAGES, "%%rlm -m openai/any -c photos --rerun\nWhat do they show?")
    page.run("user-1")
    page.run("user-2")
    page.until(lambda: page.cells()[2]["execution_count"] and page.live("answer"), "the answer")
    [calls] = page.live("subcalls")
    assert str(calls["source"]).count("<img src=") == 2
    cell = page.cell(str(calls["id"]))
    cell.locator("summary:visible").first.click()
    for summary in cell.locator("details details > summary:visible").all():
        summary.click()
    shown = cell.locator("img:visible")
    page.until(lambda: shown.count() == 2, "both images")
    page.until(
        lambda: all(one.evaluate("one => one.complete && one.naturalWidth") for one in shown.all()), "the pictures"
    )
    assert [one.evaluate("one => one.naturalWidth") for one in shown.all()] == [16, 240]
    page.picture("images", 500)
    assert page.errors == []
