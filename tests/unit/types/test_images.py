"""Images are told by their bytes: kind and size of what is one, and a reason for what is none."""

from __future__ import annotations

import io
import sys

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_jupyter.models.vision import image_tokens, sees
from rlm_jupyter.types.images import MOST_BYTES, Image, look, measure
from rlm_jupyter.types.prompt import Prompt, framed, images_of
from rlm_jupyter.types.scaling import encoded, fitted
from tests.support.pictures import BLUE, claimed, is_about, jpeg, opened, png

KINDS = ("RGB", "RGBA", "L", "LA", "1", "P", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16")


def test_a_png_and_a_jpeg_are_told_by_their_bytes() -> None:
    assert (look(png(7, 5)).mime, look(png(7, 5)).width, look(png(7, 5)).height) == ("image/png", 7, 5)
    assert look(jpeg(11, 3)).said == "image/jpeg, 11 x 3 pixels"


def test_a_progressive_jpeg_with_metadata_is_measured() -> None:
    stream = io.BytesIO()
    exif = PIL.Image.Exif()
    exif[0x010E] = "a description with \xff\xd9 in it" * 50
    PIL.Image.effect_noise((120, 70), 50).convert("RGB").save(stream, "JPEG", progressive=True, exif=exif)
    assert (look(stream.getvalue()).width, look(stream.getvalue()).height) == (120, 70)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "it is empty"),
        (b"GIF89a" + bytes(20), "it is no PNG or JPEG image"),
        (png()[:-4], "it is no PNG or JPEG image"),
        (jpeg()[:-2], "it is no PNG or JPEG image"),
        (claimed(9_000, 1), "it has 9,000 x 1 pixels"),
        (claimed(0, 1), "it has no pixels"),
    ],
)
def test_what_is_none_says_why(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        look(data)


def test_what_stands_behind_an_image_is_cut_off() -> None:
    assert look(png() + b"<script>").data == png()
    assert look(jpeg() + b"<script>").data == jpeg()


@given(st.binary(max_size=300), st.integers(0, 200), st.sampled_from([png(), jpeg()]))
def test_bytes_of_any_kind_are_an_image_or_a_reason(noise: bytes, place: int, image: bytes) -> None:
    for data in (noise, image[:place] + noise, image[:place] + noise + image[place:]):
        said = ""
        try:
            found = look(data)
        except ValueError as error:
            said = str(error)
        else:
            assert found.width * found.height > 0
            assert data.startswith(found.data)
        assert not said or said.startswith("it ")
        measure(memoryview(data))


@pytest.mark.parametrize("mode", KINDS)
def test_a_picture_of_every_mode_becomes_an_image(mode: str) -> None:
    assert encoded(PIL.Image.new(mode, (30, 20))).said == "image/png, 30 x 20 pixels"


def test_a_photograph_is_sent_as_jpeg_and_fits() -> None:
    noise = PIL.Image.effect_noise((3_000, 2_000), 90).convert("RGB")
    image = encoded(noise)
    assert (image.mime, image.width, image.height) == ("image/jpeg", 1_568, 1_045)
    assert len(image.data) <= MOST_BYTES


def test_an_image_that_fits_stays_as_it_is_and_pillow_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    assert fitted(png()).data == png()
    assert fitted(png(2_000, 10)).width == 2_000  # as large as it is, where nothing can make it smaller
    with pytest.raises(ValueError, match="Pillow, which reads others, is not installed"):
        fitted(b"GIF89a" + bytes(20))


def test_what_is_no_image_says_so_without_a_place_in_memory() -> None:
    with pytest.raises(ValueError, match=r"^it can't be read as an image \(cannot identify it\)$"):
        fitted(b"just text")


def test_a_photograph_that_lies_on_its_side_is_turned_when_it_is_scaled() -> None:
    stream = io.BytesIO()
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    PIL.Image.new("RGB", (3_000, 1_000), BLUE).save(stream, "JPEG", exif=exif)
    image = fitted(stream.getvalue())
    assert image.height > image.width
    assert is_about(opened(image.data), BLUE)


def test_a_bomb_is_not_decoded() -> None:
    with pytest.raises(ValueError, match="80,000,000 in all are the most"):
        fitted(claimed(60_000, 60_000))


def test_a_prompt_is_told_apart_by_its_images() -> None:
    first, second = (Prompt.of(["What?", look(png(colour=colour))]) for colour in (BLUE, (1, 2, 3)))
    assert first != second
    assert first.text == "What?" == second.text
    assert str(first).startswith("What?\n\n[image/png, 8 x 6 pixels, sha256 ")
    assert first.blind == "What?\n\n[an image that you can't see: image/png, 8 x 6 pixels]"
    assert images_of("What?") == ()


def test_a_prompt_within_texts_keeps_its_images() -> None:
    prompt = framed("Before.\n\n", Prompt.of(["What?", look(png())]), "\n\nAfter.")
    assert isinstance(prompt, Prompt)
    assert [part if isinstance(part, str) else part.data for part in prompt.parts] == [
        "Before.",
        "What?",
        png(),
        "After.",
    ]
    assert framed("", "What?", "\n\nAfter.") == "What?\n\nAfter."


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("openai/gpt-5-mini", True), ("openai/gpt-4o", True), ("openai/gpt-4", False), ("openai/gpt-3.5-turbo", False),
        ("openai/o3-mini", False), ("openai/o3", True), ("anthropic/claude-sonnet-5", True), ("anthropic/claude-2.1", False),
        ("gemini/gemini-2.5-flash", True), ("openrouter/anthropic/claude-sonnet-4.5", True), ("ollama/llava:7b", True),
        ("llamacpp/local", None), ("vllm/Qwen/Qwen2.5-VL-7B-Instruct", True), ("ollama/qwen3:8b", None),
        ("azure_openai/my-deployment", None), ("extractive/bm25", False), ("scripted/replies.json", False),
    ],
)  # fmt: skip
def test_which_models_see_is_known_by_name(name: str, known: bool | None) -> None:
    assert sees(name) is known


@pytest.mark.parametrize(
    ("name", "size", "published"),
    [
        # what the providers' pages say that an image of this size takes
        ("anthropic/claude-sonnet-5", (1_092, 1_092), 1_590), ("anthropic/claude-sonnet-5", (200, 200), 54),
        ("openai/gpt-4o", (1_024, 1_024), 765), ("openai/gpt-4o", (1_568, 784), 1_105),
        ("openai/gpt-4o-mini", (1_024, 1_024), 25_501), ("openai/gpt-4.1-mini", (1_024, 1_024), 1_659),
        ("openai/gpt-5-nano", (1_024, 1_024), 2_520), ("gemini/gemini-2.5-flash", (960, 540), 1_548),
        ("llamacpp/local", (1_568, 1_568), 3_136),
        ("mistral/pixtral-12b", (1_024, 1_024), 4_160),
        ("mistral/pixtral-large-latest", (1_568, 1_568), 4_160),
    ],
)  # fmt: skip
def test_no_image_takes_more_tokens_than_are_counted(name: str, size: tuple[int, int], published: int) -> None:
    assert published <= image_tokens(name, *size) < 3 * published + 2_300


def test_an_image_says_what_it_is_without_its_bytes() -> None:
    assert (
        repr(Image("image/png", 1_568, 20, "ab", b"data"))
        == "Image(mime='image/png', width=1568, height=20, sha256='ab')"
    )


@pytest.mark.parametrize("turned", [6, 8])
def test_a_pillow_image_is_turned_as_its_camera_was_held(turned: int) -> None:
    stream = io.BytesIO()
    exif = PIL.Image.Exif()
    exif[0x0112] = turned
    PIL.Image.new("RGB", (40, 20), BLUE).save(stream, "JPEG", exif=exif)
    image = encoded(PIL.Image.open(stream))
    assert (image.width, image.height) == (20, 40)
