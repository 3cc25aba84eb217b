"""What the texts of the tasks are made of: names, sentences, and the rows of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

Row = Mapping[str, str | int]

LEAST, MOST = 60_000, 1_000_000
"""Characters of a text."""

_FIRST = (
    "Ada Bruno Clara Dario Edith Farid Greta Hugo Irma Jonas Karla Ludo Mira Nils Olga Pavel Runa Samir Tilda Viktor"
)
_LAST = "Abel Brandt Castell Dorn Ekman Fuchs Grau Holm Iversen Jansen Keller Lindt Moreau Novak Oster Pohl Quist Roth"
PEOPLE = tuple(f"{first} {last}" for first in _FIRST.split() for last in _LAST.split())
_PLACES = (
    "Aldern Birkfeld Corvale Dunmoor Eastry Fenwick Garholt Halden Ilmenau Jarrow Kestrow Lorham Marrick Norwold "
    "Ostrava Penhale Quarley Rosdorf Selwick Tarnhof Ulverby Varden Westhay Yarmley Zellin"
)
PLACES = tuple(_PLACES.split())
SERVICES = ("auth", "billing", "catalog", "delivery", "export", "index", "mailer", "search")
PRODUCTS = ("kettle", "lamp", "backpack", "radio", "toaster", "tent", "scale", "blender", "heater", "clock")

_SUBJECTS = (
    "The committee",
    "A visitor from the coast",
    "The older of the two engineers",
    "The night watch",
    "Her neighbour",
    "The council's clerk",
    "Nobody in the village",
    "The ferry's captain",
    "The new librarian",
    "A group of students",
)
_VERBS = (
    "wrote down",
    "had long forgotten",
    "spoke at length about",
    "asked for",
    "paid no attention to",
    "kept a drawing of",
    "was surprised by",
    "wanted to repair",
    "had heard of",
    "made a list of",
)
_OBJECTS = (
    "the bridge near the old mill",
    "the weather of that winter",
    "the letters in the attic",
    "the price of timber",
    "the map with the torn corner",
    "the tower of the town hall",
    "a garden behind the station",
    "the boats in the harbour",
    "the minutes of the last meeting",
    "the road to the quarry",
)
_ENDINGS = (
    "before the snow came",
    "on the way home",
    "without saying why",
    "as the bells began to ring",
    "for the second time that year",
    "while the others slept",
    "and went back to work",
    "in spite of the rain",
)


def sentence(rng: Random) -> str:
    """One that says nothing that anybody asks about."""
    parts = (rng.choice(words) for words in (_SUBJECTS, _VERBS, _OBJECTS, _ENDINGS))
    return f"{' '.join(parts)}."


def sentences(rng: Random, chars: int) -> list[str]:
    """So many that they have about that length."""
    found: list[str] = []
    while chars > 0:
        found.append(sentence(rng))
        chars -= len(found[-1]) + 1
    return found


def paragraphs(said: Sequence[str], each: int = 6) -> str:
    """Sentences as a text."""
    return "\n\n".join(" ".join(said[place : place + each]) for place in range(0, len(said), each))


def log(rows: Sequence[Row]) -> str:
    """Rows as the lines of a log: `level=ERROR service=auth`."""
    return "".join(" ".join(f"{name}={value}" for name, value in row.items()) + "\n" for row in rows)


def time_of(rng: Random) -> str:
    """A moment of 2031, to the second; as text they sort as they follow each other."""
    day = f"2031-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    return f"{day}T{rng.randint(0, 23):02}:{rng.randint(0, 59):02}:{rng.randint(0, 59):02}"


def length(rng: Random) -> int:
    """Of a text: short ones are as frequent as long ones. A margin is left for what is not filler."""
    return int(LEAST * 1.15 * (MOST / LEAST / 1.5) ** rng.random())
