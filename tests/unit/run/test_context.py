import datetime
import gzip
import hashlib
import io
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import time
import types
from collections import OrderedDict
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import PIL.Image
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_jupyter.prompts.description import describe
from rlm_jupyter.run.context import pack, unpack
from rlm_jupyter.run.question import context_of
from rlm_jupyter.types.errors import ContextError
from rlm_jupyter.types.values import ContextInfo
from tests.support.pace import Pace
from tests.support.pictures import jpeg, png

_plain = st.recursive(
    st.none() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)


@given(st.text(st.characters(exclude_categories=())) | st.binary() | _plain)
def test_what_is_packed_comes_out(context) -> None:
    packed = pack(context)
    assert unpack(packed) == context
    content = b"".join(packed.buffers)
    if context is not None:
        assert packed.info.sha256 == hashlib.sha256(content).hexdigest()
        assert packed.info.nbytes == len(content)


def test_nothing_is_no_context() -> None:
    packed = pack(None)
    assert (packed.kind, packed.buffers, packed.info.type_name) == ("none", (), "none")
    assert unpack(packed) is None


def test_bytes_are_not_copied_and_what_can_change_is() -> None:
    content = b"\x00" * 1000
    assert pack(content).buffers[0] is content
    changing = bytearray(b"abc")
    packed = pack(changing)
    changing[0] = 0
    assert unpack(packed) == b"abc"
    assert unpack(pack(memoryview(b"abcdef")[::2])) == b"ace"
    assert packed.info.type_name == "bytes"
    assert packed.info.size == "3 bytes"


def test_a_subclass_of_str_is_a_str() -> None:
    class Shouting(str):
        __slots__ = ()

        def encode(self, *_: object) -> bytes:
            return b"other"

        def __len__(self) -> int:
            return 99

    packed = pack(Shouting("ä\n"))
    assert (packed.kind, packed.buffers) == ("str", ("ä\n".encode(),))
    assert type(unpack(packed)) is str
    assert (packed.info.type_name, packed.info.size, packed.info.details) == ("str", "2 characters", ("1 line",))


def test_frames_go_with_their_buffers_beside_the_stream_and_can_be_changed_afterwards() -> None:
    for frame in (pd.DataFrame({"a": np.arange(100_000)}), pl.DataFrame({"a": np.arange(100_000)})):
        packed = pack(frame)
        assert unpack(packed).equals(frame)
    frame = unpack(pack(pd.DataFrame({"a": np.arange(100_000)})))
    packed = pack(frame)
    assert len(packed.buffers) > 1
    assert len(packed.buffers[0]) < 10_000
    again = unpack(packed)
    again.loc[0, "a"] = 7
    assert again.loc[0, "a"] == 7
    assert frame.loc[0, "a"] == 0, "the caller's own data was changed"


READ_IMAGE = "import io, PIL.Image; PIL.Image.open(io.BytesIO(context))"
CONTEXT_INFO = (
    "type_name: str, 1 characters",
    "size: str, 1 characters",
    "details: tuple, 0 items",
    "beginning: str, 0 characters",
    "sha256: str, 0 characters",
    "nbytes: int",
)


@pytest.mark.parametrize(
    ("context", "type_name", "size", "details"),
    [
        ("one\ntwo", "str", "7 characters", ("2 lines",)),
        ("", "str", "0 characters", ("0 lines",)),
        ([], "list", "0 items", ()),
        (
            ["abc", "de", "f" * 2000],
            "list",
            "3 items",
            ("items: str", "characters: 2,005 in all; first 3, smallest 2, largest 2,000"),
        ),
        ((1, "a", 2), "tuple", "3 items", ("items: int (2), str (1)", "characters: 1 in all; smallest 1, largest 1")),
        ([{"id": 1, "text": "a"}], "list", "1 item", ("items: dict", "keys of the first: 'id', 'text'")),
        (
            OrderedDict(a="xyz", b=[1], c=4),
            "OrderedDict",
            "3 keys",
            ("'a': str, 3 characters", "'b': list, 1 item", "'c': int"),
        ),
        ({1, 2}, "set", "2 items", ()),
        (7, "int", "the number 7", ()),
        (True, "bool", "the value True", ()),
        (10**1_000, "int", "an integer of 3,322 bits", ()),
        (Decimal("1.50"), "Decimal", "the number 1.50", ()),
        (datetime.date(2026, 1, 2), "date", "datetime.date(2026, 1, 2)", ()),
        (ContextInfo("x", "1"), "ContextInfo", "an object of rlm_jupyter.types.values.ContextInfo", CONTEXT_INFO),
        (np.float64(3.5), "float64", "the value 3.5", ("type: float64",)),
        (PIL.Image.new("RGB", (640, 480)), "Image", "640 x 480 pixels", ("mode: RGB",)),
        ([PIL.Image.new("L", (2, 3))], "list", "1 item", ("items: Image", "images: 1 PIL; 2 x 3 pixels")),
        (
            [png(), jpeg(40, 30), png(), "a text"],
            "list",
            "4 items",
            (
                "items: bytes (3), str (1)",
                "images: 2 image/png, 1 image/jpeg; from 8 x 6 pixels to 40 x 30 pixels",
                "characters: 6 in all; smallest 6, largest 6",
            ),
        ),
        (
            {"a.png": png(), "b": 1},
            "dict",
            "2 keys",
            ("images: 1 image/png; 8 x 6 pixels", "'a.png': bytes, image/png, 8 x 6 pixels", "'b': int"),
        ),
        (png(), "bytes", "image/png, 8 x 6 pixels, 78 bytes", (f"a PNG image: {READ_IMAGE}",)),
        ({"a": PIL.Image.new("L", (2, 3))}, "dict", "1 key", ("'a': Image, 2 x 3 pixels",)),
        (
            pl.LazyFrame({"a": [1], "b": ["x"]}),
            "LazyFrame",
            "lazy, rows unknown before .collect(), 2 columns",
            ("'a': Int64", "'b': String"),
        ),
        (pa.table({"a": [1, 2]}), "Table", "2 rows, 1 column", ("'a': int64",)),
        (b"\x89PNG\r\n\x1a\n\0", "bytes", "9 bytes", ("a PNG image: " + READ_IMAGE,)),
        (
            gzip.compress(b"", mtime=0),
            "bytes",
            "20 bytes",
            ("compressed by gzip: import gzip; gzip.decompress(context)",),
        ),
        (b"MZ and BZh begin this text", "bytes", "26 bytes", ()),
        (np.zeros((3, 4)), "ndarray", "shape (3, 4)", ("items: float64",)),
        (
            pd.DataFrame({"a": [1, 2], 7: [0.5, 1.5]}),
            "DataFrame",
            "2 rows, 2 columns",
            ("'a': int64", "7: float64"),
        ),
        (pl.DataFrame({"a": [1], "b": ["x"]}), "DataFrame", "1 row, 2 columns", ("'a': Int64", "'b': String")),
    ],
)
def test_what_the_model_is_told(context, type_name, size, details) -> None:
    info = pack(context).info
    assert (info.type_name, info.size, info.details) == (type_name, size, details)


class Sly:
    @property
    def shape(self):
        raise RuntimeError("not now")

    def __len__(self):
        raise RuntimeError("never")


def test_an_object_that_objects_is_described_all_the_same() -> None:
    assert describe(Sly()) == ("an object of tests.unit.run.test_context.Sly", ())
    assert describe({"a": Sly()}) == ("1 key", ("'a': Sly",))
    # an address would be another one each time, and no provider's cache would hit
    assert describe(object()) == ("an object of builtins.object", ())
    assert describe(iter([1])) == ("an iterator, which can be read only once", ())


def test_describing_loads_no_library() -> None:
    code = """
import sys
from rlm_jupyter.run.context import pack
for context in (7, b"\\x89PNG\\r\\n\\x1a\\n", b"PK\\x03\\x04", ["a"], {"a": 1.5}):
    pack(context)
print(sorted({"PIL", "numpy", "pandas", "polars", "pyarrow", "pypdf"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_wide_things_are_told_in_bounded_space() -> None:
    info = pack({f"key {n}": n for n in range(1000)}).info
    assert len(info.details) == 21
    assert info.details[-1] == "and 980 more keys"
    info = pack(pd.DataFrame([range(1000)])).info
    assert info.details[-1] == "and 950 more columns"
    assert max(map(len, pack({"k" * 10_000_000: 1}).info.details)) < 120


@pytest.mark.parametrize(
    ("context", "match"),
    [
        ((n for n in range(3)), r"generator.*list\(…\)"),
        (map(str, [1]), r"map.*list\(…\)"),
        (iter(["a"]), r"list_iterator.*only once.*list\(…\)"),
        ({"a": 1}.items(), r"dict_items.*list\(…\)"),
        (threading.Lock(), "_thread.lock.*Pass a str"),
        ({"deep": [threading.Lock()]}, r"\(dict\).*_thread.lock"),
        (io.StringIO("text"), "open file.*read_text"),
        (types, "module 'types'"),
        (lambda: 1, "call it"),
        (test_wide_things_are_told_in_bounded_space, "call it"),
        ([lambda: 1], r"\(list\).*lambda"),
    ],
)
def test_what_can_not_be_handed_over_is_refused_in_a_line(context, match) -> None:
    with pytest.raises(ContextError, match=match) as caught:
        pack(context)
    assert "\n" not in str(caught.value)


def test_a_coroutine_is_to_be_awaited() -> None:
    async def fetch() -> str:
        return ""

    coroutine = fetch()
    with pytest.raises(ContextError, match="await it"):
        pack(coroutine)
    coroutine.close()


def test_what_is_nested_too_deeply_is_refused() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    with pytest.raises(ContextError, match="nested too deeply"):
        pack(nested)


def test_a_class_of_a_module_made_by_hand_is_refused() -> None:
    module = types.ModuleType("made_by_hand")
    exec("class Ticket: pass", module.__dict__)
    sys.modules["made_by_hand"] = module
    try:
        with pytest.raises(ContextError, match=r"'Ticket'.*made_by_hand"):
            pack(module.Ticket())
    finally:
        del sys.modules["made_by_hand"]


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ("class Ticket: pass", "[Ticket()]"),
        ("import enum\nclass Ticket(enum.Enum): A = 1", "{'a': Ticket.A}"),
        ("def ticket(): pass", "{'f': ticket}"),
        ("import collections\nTicket = collections.namedtuple('Ticket', 'a')", "Ticket(1)"),
    ],
)
def test_what_is_defined_in_the_session_is_refused_by_name(definition, value) -> None:
    script = f"{definition}\nfrom rlm_jupyter.run.context import pack\npack({value})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert "ContextError" in last
    assert "ticket" in last.lower()
    assert "module" in last


def test_a_program_started_as_a_module_is_no_module_to_a_kernel(tmp_path) -> None:
    program = "from rlm_jupyter.run.context import pack\nclass Ticket: pass\npack([Ticket()])\n"
    (tmp_path / "program.py").write_text(program)
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])])
    command = [sys.executable, "-m", "program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path})
    assert "ContextError: The context holds the class 'Ticket'" in done.stderr


def test_a_fresh_interpreter_loads_what_was_packed() -> None:
    packed = pack({"frame": pd.DataFrame({"a": [1, 2]}), "when": pd.Timestamp("2026-01-02"), "d": OrderedDict(a=1)})
    script = textwrap.dedent("""
        import pickle, sys
        stream, buffers = pickle.load(sys.stdin.buffer)
        print(pickle.loads(stream, buffers=[bytearray(b) for b in buffers])["frame"]["a"].sum())
    """)
    handed = pickle.dumps((packed.buffers[0], [bytes(buffer) for buffer in packed.buffers[1:]]))
    done = subprocess.run([sys.executable, "-c", script], input=handed, capture_output=True, check=True)
    assert done.stdout.strip() == b"3"


def test_no_copy_is_made_of_a_large_ascii_text() -> None:
    import tracemalloc

    text = "a line of text\n" * 2_000_000
    tracemalloc.start()
    context = context_of(text)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert context.info.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert peak < len(text) / 10


def test_a_large_text_is_packed_fast_and_copied_once() -> None:
    import tracemalloc

    text = "a line of text\n" * 4_000_000
    tracemalloc.start()
    pace = Pace(time.process_time)
    packed = pack(text)
    fast = pace.within(10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert packed.info.details == ("4,000,000 lines",)
    assert peak < len(text) * 1.1
    assert fast


@pytest.mark.parametrize("size", [1 << 20, (1 << 20) + 1, 3 << 20])
def test_the_lines_of_a_large_text_are_counted_across_its_pieces(size: int) -> None:
    text = ("a line\n" * (size // 7 + 1))[:size]
    _, details = describe(text)
    assert details[0] == f"{len(text.splitlines()):,} lines"
