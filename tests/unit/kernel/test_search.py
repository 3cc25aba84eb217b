"""`SEARCH`: what of a text is found, in which order, and what is shown of it."""

from __future__ import annotations

import textwrap

import pandas as pd
import pytest

from rlm_jupyter.kernel.guest import search as searching
from rlm_jupyter.kernel.guest.search import Passages, search, search_in

_TOWN = (
    "The council met on Monday. Nobody knew the number of the town hall. In that year Hugo Brandt travelled to Lorham.\n"
    "In that year Ada Lindt travelled to Halden. Hugo slept.\n"
    "HUGO BRANDT'S brother travelled to Ostrava! The town was quiet."
)


def test_the_rarest_words_decide_and_not_their_number() -> None:
    text = (
        "The special number for tent is 1. " * 50
        + "For lamp-Garholt it is 7. "
        + "The special number for tent is 2. " * 50
    )
    assert search("What is the special number for lamp-Garholt?", text) == ["For lamp-Garholt it is 7."]


def test_all_that_is_said_of_one_is_found_in_its_order_whatever_the_case() -> None:
    found = search("hugo brandt", _TOWN)
    assert found[:2] == ["In that year Hugo Brandt travelled to Lorham.", "HUGO BRANDT'S brother travelled to Ostrava!"]
    assert found[2:] == ["Hugo slept."]


def test_a_list_holds_phrases() -> None:
    assert search(["travelled to h"], _TOWN) == ["In that year Ada Lindt travelled to Halden."]


@pytest.mark.parametrize(
    ("words", "text", "found"),
    [
        ("lamp-Garholt", "Nothing. It is the lamp of Garholt. Nothing.", "It is the lamp of Garholt."),
        ("東京の市長は誰ですか？", "今日は雨です。東京の市長は山田です。明日は晴れ。", "東京の市長は山田です。"),
        ("RATHAUS İzmir", "Nichts. Das Rathaus von İzmir ist alt. Nichts.", "Das Rathaus von İzmir ist alt."),
        ("what (is) [it]*?", "Nothing. what (is) [it]*? Nothing.", "what (is) [it]*?"),
        ("कोलकाता", "यह एक शहर है। कोलकाता बड़ा है। वह नदी है।", "कोलकाता बड़ा है।"),
        ("서울", "비가 온다. 서울은 크다. 눈이 온다.", "서울은 크다."),
    ],
)
def test_words_are_found_in_any_language(words: str, text: str, found: str) -> None:
    assert search(words, text)[0] == found


def test_a_word_counts_before_a_part_of_other_words() -> None:
    text = "A holiday was held in the friday market. " * 50 + "Ida lives in Halden. Two Idas met."
    assert search("Who is Ida?", text)[:2] == ["Ida lives in Halden.", "Two Idas met."]
    assert search("rathaus", "Nichts. Der Rathausplatz ist leer. Das Altrathaus auch. Nichts.") == [
        "Der Rathausplatz ist leer.",
        "Das Altrathaus auch.",
    ]


@pytest.mark.parametrize(
    "sentence",
    [
        "The keeper of the lighthouse was Dr. Brandt of Lorham.",
        "The keeper of the lighthouse has No. 57.",
        "The keeper of the lighthouse was seen by J. R. Holm.",
        "The keeper of the lighthouse sold oil, lamps etc. and rope.",
        "The keeper of the lighthouse war am 3. Mai 1921 dort.",
    ],
)
def test_a_point_within_a_sentence_does_not_end_it(sentence: str) -> None:
    assert search("lighthouse", f"Nobody came. {sentence} Nobody went.") == [sentence]


def test_short_sentences_end() -> None:
    text = "The answer is 42. Nobody saw it. The lighthouse is 7. It was so. then he went"
    assert search("lighthouse", text) == ["The lighthouse is 7."]


@pytest.mark.parametrize("words", ["", "?!", "zebra", []])
def test_what_is_not_there_is_not_found(words: str | list[str]) -> None:
    assert search(words, _TOWN) == []
    assert repr(search(words, _TOWN)) == "Nothing was found."
    assert search(words, "") == []


def test_several_texts_are_searched() -> None:
    assert search("Ada", ["None.", "Ada slept.", "Ada"]) == ["Ada slept.", "Ada"]
    assert search("Ada", {"one": "Ada slept."}) == ["Ada slept."]
    assert search(["Ada", 1921], "In 1921 Ada slept.") == ["In 1921 Ada slept."]
    for no_words in (None, 5, b"Ada"):
        with pytest.raises(TypeError, match=rf"looks for a text, or .*; this is a {type(no_words).__name__}\.$"):
            search(no_words, "Ada slept.")  # type: ignore[arg-type]
    for no_text in ([{"name": "Ada"}], b"Ada", 5, pd.DataFrame({"Ada": ["Ada"]}), {"Ada": 5}):
        with pytest.raises(TypeError, match=f"this is a {type(no_text).__name__}"):
            search("Ada", no_text)


def test_pieces_end_between_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_PIECE", 40)
    text = "".join(f"Number {number} is here. " for number in range(500))
    assert search("number 250", text)[0] == "Number 250 is here."
    assert len(search(["is here"], text)) == 500


def test_a_common_word_is_looked_at_no_further_than_it_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "_MANY", 10)
    assert len(search("here", "It is here.\n" * 1000)) == 10
    assert search("here rarely", "It is here.\n" * 500 + "Rarely so.\n" + "It is here.\n" * 500) == ["Rarely so."]


def test_a_text_without_sentences_is_cut_around_what_is_found() -> None:
    (passage,) = search("needle", "x" * 10_000 + "needle" + "y" * 10_000)
    assert "needle" in passage
    assert len(passage) <= 4_000


def test_sentences_of_prose_that_is_wrapped_are_whole() -> None:
    sentence = "The keeper of the old lighthouse at Kestrow, who was called Ada, had counted the ships. "
    wrapped = "\n".join(
        textwrap.wrap(sentence * 20 + "Then Hugo, of whom nobody in the village knew, had come. " * 3, 60)
    )
    assert search("hugo", wrapped)[0] == "Then Hugo, of whom nobody in the village knew, had come."


_ENGLISH = "The keeper of the old lighthouse, who was called Ada, had counted all of the ships."
_GERMAN = "Der Wärter des alten Leuchtturms an der Küste von Kestrow hatte das Schiff mit Namen Ada gezählt."
_ARABIC = "وكان حارس المنارة القديمة التي تقع على شاطئ البحر يعد كل السفن التي تمر من هناك كل يوم."
_FOUND = {
    _ENGLISH: "Then Hugo, of whom nobody in the village had ever heard a word, had come.",
    _GERMAN: "Dann kam Hugo, von dem niemand im Dorf bis zu diesem Tag etwas gehört hatte.",
    _ARABIC: "ثم جاء هوغو الذي لم يسمع عنه أحد من أهل القرية شيئا من قبل ذلك اليوم.",
}


@pytest.mark.parametrize("sentence", _FOUND, ids=["English", "German", "Arabic"])
@pytest.mark.parametrize("margin", ["", "  ", "> "])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("count", [1, 8])
def test_wrapped_prose_is_known_however_its_lines_begin_and_end(
    sentence: str, margin: str, newline: str, count: int
) -> None:
    wanted = _FOUND[sentence]
    paragraphs = [f"{sentence} {sentence}" for _ in range(20)] + [" ".join([*[sentence] * count, wanted])] * 3
    text = "\n\n".join(textwrap.fill(each, 60) for each in paragraphs)
    text = newline.join(margin + line for line in text.split("\n"))
    assert search("هوغو" if sentence is _ARABIC else "hugo", text) == [wanted] * 3


def test_rows_with_sentences_in_them_stay_lines() -> None:
    rows = "".join(f"{name}\tHe came to {name} at noon. He saw the town of the old king\n" for name in range(100, 200))
    assert search(["104\t"], rows) == ["104\tHe came to 104 at noon."]


def test_lines_that_are_no_sentences_stay_lines() -> None:
    entries = "".join(
        f"{name}: a line of some length that says what it is, number {name}\n" for name in range(100, 200)
    )
    assert search(["number 150"], entries) == ["150: a line of some length that says what it is, number 150"]
    lower = "".join(f"entry {name} is a line of some length that says what it is\n" for name in range(100, 200))
    assert search(["entry 150 "], lower) == ["entry 150 is a line of some length that says what it is"]


_FILLING = "The night watch went home. Nobody asked for the map. " * 20


def test_behind_the_best_comes_what_is_said_elsewhere_of_a_name_in_it() -> None:
    text = f"Badge 8307 belongs to Nils. {_FILLING}The cellar in Rosdorf was opened with badge 8307. {_FILLING}"
    text += f"The cellar in Varden was opened with badge 1111. {_FILLING}Badge 1111 belongs to Ada."
    assert search("Whose badge opened the cellar in Rosdorf?", text) == [
        "The cellar in Rosdorf was opened with badge 8307.",
        "Badge 8307 belongs to Nils.",
        "The cellar in Varden was opened with badge 1111.",
    ]
    assert search("rosdorf", ["He was born in Rosdorf as Ada Roth.", _FILLING, "Roth sold it."])[1:] == [
        "Roth sold it."
    ]


def test_a_name_leads_on_only_where_it_is_rare() -> None:
    often = "Then Ada Roth came, and it was late.\n" * 6
    assert search("rosdorf", f"Ada Roth lives in Rosdorf.\n{often}") == ["Ada Roth lives in Rosdorf."]
    small = "The house of the smith in Rosdorf burned.\nThat smith is dead.\n"
    assert search("rosdorf", small) == ["The house of the smith in Rosdorf burned."]


def test_nothing_leads_on_where_many_are_the_best() -> None:
    three = "".join(f"Rosdorf sold Item {number}.\n" for number in range(3))
    assert len(search("rosdorf", f"{three}Then Item 2 broke.\n")) == 4
    four = "".join(f"Rosdorf sold Item {number}.\n" for number in range(4))
    assert len(search("rosdorf", f"{four}Then Item 2 broke.\n")) == 4


def test_no_more_than_five_are_led_to_those_with_the_rarest_names_first() -> None:
    said = "".join(f"Hugo ate {what}.\nIda sang of {what}.\n" for what in ("bread", "cheese", "pears", "fish"))
    found = search("rosdorf", f"In Rosdorf lived Hugo, Ida and Ada.\n{said}Ada wept.\n")
    assert found[:2] == ["In Rosdorf lived Hugo, Ida and Ada.", "Ada wept."]
    assert len(set(found)) == len(found) == 6


def test_what_is_shown_is_short() -> None:
    shown = repr(Passages(["a" * 600, *map(str, range(30))])).splitlines()
    assert shown[0] == "a" * 500 + "…"
    assert shown[-1] == "… 31 in all, of which these are the first"
    assert len(shown) == 21
    assert str(Passages(["a", "b"])) == "a\nb"


def test_the_context_is_searched_if_no_text_is_given() -> None:
    namespace = {"context": "Ada slept."}
    find = search_in(namespace)
    assert find("ada") == ["Ada slept."]
    namespace["context"] = "Ada woke."
    assert find("ada") == ["Ada woke."]
    assert find("bob", "Bob ran.") == ["Bob ran."]
