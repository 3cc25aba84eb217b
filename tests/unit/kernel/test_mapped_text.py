"""A `str` whose characters lie in a file: it is like any other, whatever its characters are."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_jupyter.kernel import shared_texts
from rlm_jupyter.kernel.guest import mapped_text
from rlm_jupyter.kernel.guest.mapped_text import mapped
from rlm_jupyter.kernel.shared_texts import SharedText
from rlm_jupyter.run.context import Context, pack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="texts are shared on Linux")

TEXTS = st.one_of(
    *(st.text(st.characters(max_codepoint=last, exclude_categories=())) for last in (0x7F, 0xFF, 0xFFFF, 0x10FFFF))
)


def shared(value: str, *, is_packed: bool = True) -> str:
    """Return a text as a kernel has it that it is shared with."""
    text = SharedText(pack(value) if is_packed else Context(value))
    written = text._written.result()
    assert written is not None
    made = mapped(written.file, written.length, written.width, is_ascii=written.is_ascii)
    text.close()
    return made


@given(TEXTS, TEXTS)
def test_it_is_the_same_text(value: str, other: str) -> None:
    made = shared(value)
    assert type(made) is str
    assert made == value
    assert hash(made) == hash(value)
    assert {value: 1}[made] == 1
    assert len(made) == len(value)
    assert made.encode("utf-8", "surrogatepass") == value.encode("utf-8", "surrogatepass")
    assert (made < other, made + other, other + made) == (value < other, value + other, other + value)
    assert (made.find(other), made[1:], made[::-1]) == (value.find(other), value[1:], value[::-1])
    assert pickle.loads(pickle.dumps(made)) == value
    assert (made.upper(), made.split(), made * 2) == (value.upper(), value.split(), value * 2)


@pytest.mark.parametrize("value", ["", "a", "a" * 4_095, "a" * 4_096, "é" * 4_097, "€" * 2_048, "\U0001f600" * 1_025])
def test_its_size_is_that_of_another_and_it_is_not_changed_in_its_place(value: str) -> None:
    made = shared(value)
    fresh = pickle.loads(pickle.dumps(value))
    if len(value) > 1:  # of one character there is but one, which may have its UTF-8 beside it
        assert sys.getsizeof(made) == sys.getsizeof(fresh)
    longer = made
    longer += "more"
    assert (made, longer) == (value, value + "more")
    address = id(made)
    del made, longer
    gc.collect()
    again: str = ctypes.cast(address, ctypes.py_object).value
    assert again == value
    interned = sys.intern(again)
    assert interned == value


def test_pieces_of_a_text_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_texts, "_PIECE", 3)
    monkeypatch.setattr(shared_texts, "_PIECE_BYTES", 3)
    for value in ("abcdefgh", "abcdefgé", "abcdefé€", "abé€de\U0001f600\udfffg", "\ud83d\ude00" * 4, "abc" * 3):
        assert shared(value) == value
        assert shared(value, is_packed=False) == value


@pytest.mark.parametrize(
    "change",
    [
        lambda patch: patch.setattr(sys, "abiflags", "t"),
        lambda patch: patch.setattr(sys.implementation, "name", "another"),
        lambda patch: patch.setattr(mapped_text, "_LENGTH", 1),
    ],
)
def test_an_interpreter_that_is_not_known_has_none(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch)
    with pytest.raises(NotImplementedError):
        shared("text")


def test_a_file_that_is_shorter_than_the_text_is_refused() -> None:
    file = os.memfd_create("short")
    os.write(file, b"text")
    try:
        with pytest.raises(ValueError, match="shorter"):
            mapped(file, 4, 1, is_ascii=True)
    finally:
        os.close(file)


def test_where_there_is_no_room_for_it_that_is_an_error() -> None:
    file = os.memfd_create("large")
    os.ftruncate(file, 1 << 51)
    try:
        with pytest.raises(OSError, match="memory"):
            mapped(file, 1 << 48, 4, is_ascii=False)
    finally:
        os.close(file)
