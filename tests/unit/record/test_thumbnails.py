"""Thumbnails of the images of sub-calls: nothing that takes long is decoded for one."""

from __future__ import annotations

import pytest

from rlm_jupyter.record.subcall_list import markdown
from rlm_jupyter.record.subcall_texts import Excerpts
from rlm_jupyter.types.events import SubcallSettled
from rlm_jupyter.types.images import look
from rlm_jupyter.types.values import Usage
from tests.support.pictures import jpeg, png


@pytest.mark.parametrize(
    ("data", "is_shown"),
    [
        (png(), True),
        (png(1_500, 1_500), True),
        (png(4_000, 4_000), False),
        (png(1, 7_000), True),
        (jpeg(4_000, 4_000), True),
    ],
)
def test_an_image_is_shown_small_or_in_words(data: bytes, is_shown: bool) -> None:
    image = look(data)
    call = SubcallSettled(
        1, 0, "llm", 0, "", 4, "What", None, "some/model", "A reply.", False, Usage(), 0.0, 0.1, images=(image,)
    )
    page = markdown([call], 0, Excerpts("elsewhere"))
    assert ("<img src=" in page) == is_shown
    assert image.said in page
