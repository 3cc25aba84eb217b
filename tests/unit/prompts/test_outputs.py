import base64
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_client.manager import start_new_kernel

from rlm_jupyter.prompts.outputs import ShownText, cut, render
from rlm_jupyter.types.values import Output
from tests.support.pace import Pace


def stream(text: str | list[str], name: str = "stdout") -> Output:
    return {"output_type": "stream", "name": name, "text": text}


def display(**data: Any) -> Output:
    mimes = {kind.replace("__", "+").replace("_", "/", 1): value for kind, value in data.items()}
    return {"output_type": "display_data", "metadata": {}, "data": mimes}


class Kernel:
    def __init__(self, client: Any) -> None:
        self.client = client

    def render(self, code: str) -> str:
        outputs: list[Output] = []

        def keep(message: dict[str, Any]) -> None:
            if message["msg_type"] in {"stream", "display_data", "execute_result", "error"}:
                outputs.append({"output_type": message["msg_type"], **message["content"]})

        self.client.execute_interactive(code, output_hook=keep, timeout=60)
        return render(outputs)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    manager, client = start_new_kernel(kernel_name="python3")
    yield Kernel(client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_cell_reads_as_in_a_notebook(kernel: Kernel) -> None:
    assert kernel.render('print("a")\nprint("b")\n6 * 7') == "a\nb\n42"


def test_of_a_traceback_remain_the_lines_of_cells_that_failed(kernel: Kernel) -> None:
    text = kernel.render("import json\ndef f(x):\n    return json.loads(x)\nf('{')")
    lines = text.splitlines()
    assert lines[0].split(maxsplit=1) == ["JSONDecodeError", "Traceback (most recent call last)"]
    assert "----> 4 f('{')" in lines
    assert "----> 3     return json.loads(x)" in lines
    libraries = [line for line in lines if line.startswith("File ")]
    assert len(libraries) == 3
    assert all("json" in line for line in libraries)
    assert "scan_once" not in text
    assert "import json" not in text, "the lines around the one that failed"
    assert "\x1b" not in text
    assert lines[-1].startswith("JSONDecodeError: Expecting property name")


def test_of_a_comprehension_only_the_place_is_told(kernel: Kernel) -> None:
    text = kernel.render("import json\nitems = [{}]\nsum(item['a'] for item in items)")
    assert "----> 3 sum(item['a'] for item in items)\nCell In" in text
    # IPython shows the cell's first line there, under the number of another
    assert "import json" not in text
    assert re.search(r"\nCell In ?\[\d+\], line 3, in <genexpr>\(\.0\)\nKeyError: 'a'", text)


def test_a_chain_of_errors_stays_whole(kernel: Kernel) -> None:
    text = kernel.render("import json\ntry:\n    json.loads('')\nexcept ValueError:\n    {}['key']")
    assert text.index("JSONDecodeError: Expecting") < text.index("During handling") < text.index("KeyError: 'key'")
    assert "----> 5     {}['key']" in text


def test_a_recursion_is_told_in_a_few_lines(kernel: Kernel) -> None:
    text = kernel.render("def g(n): return g(n + 1)\ng(0)")
    assert text.count("return g(n + 1)") == 1
    assert "more times]" in text
    assert text.endswith("RecursionError: maximum recursion depth exceeded")
    both = kernel.render("def a(n): return b(n)\ndef b(n): return a(n)\na(0)")
    assert "frames left out]" in both
    assert len(both) < 10_000


def test_a_syntax_error_shows_the_line(kernel: Kernel) -> None:
    text = kernel.render("x = = 1")
    assert [line.strip() for line in text.splitlines()[-3:]] == ["x = = 1", "^", "SyntaxError: invalid syntax"]


def test_objects_of_a_library_read_as_their_plain_form(kernel: Kernel) -> None:
    text = kernel.render("import pandas as pd\npd.DataFrame({'a': [1, 2]})")
    assert text == "   a\n0  1\n1  2"


def test_a_figure_is_named(kernel: Kernel) -> None:
    text = kernel.render("%matplotlib inline\nimport matplotlib.pyplot as plt\n_ = plt.plot([1, 2])")
    assert text.startswith("<Figure size ")
    assert "[image/png, " in text
    assert text.endswith("KB: shown in the notebook]")


def test_displays_without_a_plain_form_are_read_from_another(kernel: Kernel) -> None:
    assert kernel.render("from IPython.display import Markdown\nMarkdown('*a*')") == "*a*"
    page = "<style>p{}</style><table><tr><th>n</th></tr><tr><td>1</td><td>2 &amp; 3</td></tr></table><p>x\n y</p>"
    assert kernel.render(f"from IPython.display import HTML\nHTML({page!r})") == "n\n1 | 2 & 3\nx\ny"


def test_a_progress_bar_reads_in_its_last_state(kernel: Kernel) -> None:
    code = "import sys\nfor n in range(101):\n    print(f'\\r{n}%', end='', file=sys.stderr, flush=True)"
    assert kernel.render(code) == "100%"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("abc\rX", "Xbc"),
        ("abc\r\ndef\r\n", "abc\ndef"),
        ("10%\r100%\ndone", "100%\ndone"),
        ("abc\x08\x08X", "aXc"),
        ("\x08a", "a"),
        ("loading\r\x1b[Kok", "ok"),
        ("loading\x1b[2K\rok", "ok"),
        ("load\x1b[2Kok\r", "    ok"),
        ("\x1b[31mred\x1b[0m\rb", "bed"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("\x07a\x1b(Bb", "ab"),
        ("\ud800\udc00 x", "\ud800\udc00 x"),
        ("", ""),
    ],
)
def test_streams_read_as_on_a_terminal(text: str, shown: str) -> None:
    assert render([stream(text)]) == shown


def test_pieces_of_one_stream_are_one_text() -> None:
    assert render([stream("a"), stream(["b", "\rc"]), stream("err", "stderr"), stream("d\n")]) == "cb\nerr\nd"


def test_pictures_have_a_size() -> None:
    png = base64.b64encode(b"\0" * 12_288).decode()
    assert render([display(image_png=png)]) == "[image/png, 12 KB: shown in the notebook]"
    svg = display(image_svg__xml="<svg/>", text_plain="<IPython.core.display.SVG object>")
    assert render([svg]) == "[image/svg+xml, 6 bytes: shown in the notebook]"
    # to a person who reads it elsewhere nothing is shown
    assert render([svg], where="in the notebook") == "[image/svg+xml, 6 bytes: in the notebook]"
    assert "3.0 MB" in render([display(application_pdf="A" * 4 * 1024**2)])


def test_other_displays_are_named_or_read() -> None:
    assert render([display(application_json={"a": ["é"]})]) == '{"a": ["é"]}'
    assert render([display(text_latex=["$x$", "\n"])]) == "$x$"
    assert render([display(application_x="?")]) == "[application/x: shown in the notebook]"
    assert render([display(text_html="<p>x" * 500_000)]) == "[text/html, 1.9 MB: shown in the notebook]"
    assert render([display()]) == ""


def test_an_error_without_a_traceback_is_told() -> None:
    assert render([{"output_type": "error", "ename": "E", "evalue": "x", "traceback": []}]) == "E: x"
    assert render([{"output_type": "error", "ename": "E", "evalue": "", "traceback": []}]) == "E"


def test_nothing_reads_as_nothing() -> None:
    assert render([]) == ""
    assert render([stream("\n\n")]) == ""


@given(st.text(alphabet="ab\r\n\x08\x1b[K0;m \ud800"))
def test_any_stream_can_be_read(text: str) -> None:
    shown = render([stream(text)])
    assert "\x08" not in shown
    assert "\r" not in shown


@pytest.mark.parametrize(
    "text", ["x\r" * 500_000, "a" * 500_000 + "\rb" * 250_000, "\x1b[" * 500_000, "\x1b]" * 500_000, "a\x08" * 500_000]
)
def test_a_megabyte_is_rendered_at_once(text: str) -> None:
    pace = Pace(time.process_time)
    render([stream(text)])
    assert pace.within(15)


# 10 lines of 10 characters
LINES = "".join(f"line {n:>4}\n" for n in range(1_000))


def test_a_long_text_keeps_head_and_tail_in_whole_lines() -> None:
    shown = cut(LINES, 2_000, variable="output_7")
    head, notice, tail = shown.text.partition("\n[")[0], *shown.text.partition("\n[")[2].split("\n", 1)
    assert LINES.startswith(head + "\n")
    assert LINES.endswith("\n" + tail)
    missing = len(LINES) - len(head) - 1 - len(tail)
    assert notice == f"… {missing + 1:,} of 10,000 characters left out; the whole output is in `output_7` …]"
    assert len(head) + len(tail) <= 2_000
    assert min(len(head), len(tail)) > 700
    assert (shown.cut, shown.chars) == (True, 10_000)


def test_the_variable_is_named_only_where_there_is_one() -> None:
    assert "the whole" not in cut(LINES, 100, variable=None).text


def test_a_text_that_fits_stays_as_it_is() -> None:
    assert cut("a\nb", 3, variable="x") == ShownText("a\nb", cut=False, chars=3)
    # a notice longer than what it replaces helps nobody
    assert cut("a" * 2_010, 2_000, variable="x") == ShownText("a" * 2_010, cut=False, chars=2_010)


@given(st.text(alphabet="ab\n\ud800", min_size=300), st.integers(1, 400))
def test_what_is_shown_is_a_head_and_a_tail(text: str, limit: int) -> None:
    shown = cut(text, limit, variable=None)
    assert shown.chars == len(text)
    if shown.cut:
        head, tail = shown.text.split("\n[… ")[0], shown.text.split(" …]\n")[-1]
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + len(tail) <= limit
        assert len(shown.text) < len(text)
    else:
        assert shown.text == text
