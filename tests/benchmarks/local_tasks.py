"""`tasks(seed)`: ten questions about texts that a small model can't read, each with one right answer.

Most need a line or two of code, which is as far as a model of 1.5 billion parameters gets at times; a join needs two
searches, and the last one a reader: what its reviews mean stands in no word that code could look for. Where there are
other candidates for an answer, they stand in the text, too. Half of the texts are logs, the others sentences.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from random import Random

from tests.benchmarks.local_texts import (
    PEOPLE,
    PLACES,
    PRODUCTS,
    SERVICES,
    Row,
    length,
    log,
    paragraphs,
    sentence,
    sentences,
    time_of,
)

_NUMBER = r"(?<![\w.])-?(?:\d{1,3}(?:[,_'\u00a0\u2009\u202f ]\d{3})+(?!\d)|\d+)(?:\.\d+)?"
_PHONE = r"\b\d{4}-\d{6}\b"
_LONGEST = 300
"""Characters of an answer: what is longer is a report, a listing or a piece of code."""


@dataclass(frozen=True)
class Task:
    """A question, and what is right."""

    name: str
    prompt: str
    context: str
    answer: str
    candidates: str
    """A regular expression for all that could be an answer of this kind, right or wrong."""
    form: str = "text"

    def score(self, answer: object) -> float:
        """Grade an answer: 1.0 or 0.0."""
        return float(is_right(self, answer))


def is_right(task: Task, answer: object) -> bool:
    """Whether an answer names what is right, and nothing else of its kind.

    A sentence around it, thousands separators, quotes and capitals don't matter; what the question names doesn't
    count as a candidate. Several candidates are no answer, and neither is a long text that holds the right one.
    """
    text = str(answer).strip()
    if answer is None or len(text) > _LONGEST:
        return False
    named = _candidates(task, text)
    return (named - _candidates(task, task.prompt) or named) == _candidates(task, task.answer)


def _candidates(task: Task, text: str) -> set[str]:
    found = re.findall(task.candidates, text, re.IGNORECASE)
    return {_number(one) if task.candidates == _NUMBER else " ".join(one.split()).lower() for one in found}


def _number(text: str) -> str:
    plain = f"{Decimal(re.sub('[^0-9.-]', '', text)):f}"
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def tasks(seed: int) -> list[Task]:
    """The ten of a seed: the same ones on every machine."""
    rng = Random(f"local tasks {seed}")
    return [make(rng) for make in _MAKERS]


def _any_of(names: Iterable[str]) -> str:
    """A candidate is any of these names, as a word of its own."""
    return rf"\b(?:{'|'.join(sorted(names, key=len, reverse=True))})\b".replace(" ", r"\s+")


def _log(rng: Random, row: Callable[[], Row]) -> list[Row]:
    """As many rows as make a log of some length."""
    first = [row() for _ in range(100)]
    count = length(rng) * len(first) // len(log(first))
    return first + [row() for _ in range(count - len(first))]


def _needle(rng: Random) -> Task:
    places = rng.sample(PLACES, 4)
    codes = rng.sample(range(100_000, 1_000_000), len(places))
    said = sentences(rng, length(rng))
    for place, code in zip(places, codes, strict=True):
        said.insert(rng.randrange(len(said)), f"The access code of the archive in {place} is {code}.")
    prompt = f"What is the access code of the archive in {places[0]}?"
    return Task("needle", prompt, paragraphs(said), str(codes[0]), _NUMBER)


def _count(rng: Random) -> Task:
    def row() -> Row:
        level = rng.choices(("INFO", "WARN", "ERROR"), (80, 14, 6))[0]
        return {"time": time_of(rng), "level": level, "service": rng.choice(SERVICES), "ms": rng.randint(3, 900)}

    rows = _log(rng, row)
    answer = sum(row["level"] == "ERROR" for row in rows)
    return Task("count", "How many lines have the level ERROR?", log(rows), str(answer), _NUMBER)


def _word(rng: Random) -> Task:
    said = paragraphs(sentences(rng, length(rng)))
    word = rng.choice(("harbour", "librarian", "winter", "timber", "snow", "captain"))
    prompt = f'How many times does the word "{word}" occur in the text?'
    return Task("word", prompt, said, str(said.count(word)), _NUMBER)


def _sum(rng: Random) -> Task:
    def row() -> Row:
        date = time_of(rng)[:10]
        return {"date": date, "store": rng.choice(PLACES), "item": rng.choice(PRODUCTS), "amount": rng.randint(5, 900)}

    rows = _log(rng, row)
    answer = sum(int(row["amount"]) for row in rows)
    return Task("sum", "What is the sum of all amounts?", log(rows), str(answer), _NUMBER)


def _look_up(rng: Random) -> Task:
    numbers = iter(rng.sample(range(10_000, 100_000), 20_000))

    def row() -> Row:
        phone = f"{rng.randint(1000, 9999)}-{rng.randint(100_000, 999_999)}"
        person, city = rng.choice(PEOPLE), rng.choice(PLACES)
        return {"customer": f"C{next(numbers)}", "name": person, "city": city, "phone": phone}

    rows = _log(rng, row)
    asked = rng.choice(rows)
    prompt = f"What is the phone number of the customer {asked['customer']}?"
    return Task("look-up", prompt, log(rows), str(asked["phone"]), _PHONE)


def _join(rng: Random) -> Task:
    """Who has what is said in one place, what was done with it in another."""
    badges, people = rng.sample(range(1_000, 10_000), 60), rng.sample(PEOPLE, 60)
    said = sentences(rng, length(rng))
    facts = [f"Badge {badge} belongs to {person}." for badge, person in zip(badges, people, strict=True)]
    places = rng.sample(PLACES, 8)
    facts += [f"The cellar in {place} was opened with badge {badges[i * 5]}." for i, place in enumerate(places)]
    for fact in facts:
        said.insert(rng.randrange(len(said)), fact)
    asked = rng.randrange(len(places))
    prompt = f"What is the name of the person whose badge opened the cellar in {places[asked]}?"
    return Task("join", prompt, paragraphs(said), people[asked * 5], _any_of(PEOPLE))


def _distinct(rng: Random) -> Task:
    users = [f"u{number}" for number in rng.sample(range(1_000, 10_000), rng.randint(60, 500))]

    def row() -> Row:
        return {"time": time_of(rng), "user": rng.choice(users), "page": f"/p/{rng.randint(1, 90)}"}

    rows = _log(rng, row)
    answer = len({row["user"] for row in rows})
    return Task("distinct", "How many different users are there?", log(rows), str(answer), _NUMBER)


def _highest(rng: Random) -> Task:
    def row() -> Row:
        return {"date": time_of(rng)[:10], "station": rng.choice(PLACES), "pressure": rng.randint(20, 4_000)}

    rows = _log(rng, row)
    top = rng.randint(10_000, 12_000)  # read as text, it comes early
    rows.insert(rng.randrange(len(rows)), {**row(), "pressure": top})
    return Task("highest", "What is the highest pressure that was measured?", log(rows), str(top), _NUMBER)


def _last(rng: Random) -> Task:
    def row() -> Row:
        return {"time": time_of(rng), "pump": rng.choice(PLACES), "limit": rng.randint(100, 9_999)}

    rows = sorted(_log(rng, row), key=lambda row: str(row["time"]))
    pump = rng.choice(PLACES)
    answer = [row["limit"] for row in rows if row["pump"] == pump][-1]
    prompt = f"What is the limit in the last line about the pump {pump}?"
    return Task("last", prompt, log(rows), str(answer), _NUMBER)


_PLEASED = (
    "I use it every single morning and would buy it again without thinking twice.",
    "I had feared that it would fall apart like the one before it, but it is as good as new after two years.",
    "My sister wanted to borrow it for a day, and I am still waiting to get it back, so much does she like it.",
    "It does what it should, it is quiet, and it was worth every crown.",
    "A friend warned me that it would break soon; how wrong he was.",
    "It was a present for my father, who smiles each time he takes it out.",
    "I was doubtful because of the price, and now I am glad that I did not take the cheaper one.",
    "We took it along on three journeys, and it never let us down.",
)
_UNHAPPY = (
    "It went back to the shop after two days, and I asked for my money.",
    "It stopped for good within a week, and nobody answers my letters.",
    "I would rather have kept my old one; this was a waste of a hundred crowns.",
    "My hand still hurts from the burn, and I will warn everybody I know.",
    "It arrived in pieces, and what I could put together fell apart at once.",
    "For the price I had hoped for more than a thing that now gathers dust in the cellar.",
)


def _reviews(rng: Random) -> Task:
    """The one that code alone does not answer."""
    product, *others = rng.sample(PRODUCTS, len(PRODUCTS))
    names = rng.sample(PEOPLE, 6)
    said = [(product, name, rng.choice(_PLEASED)) for name in names[1:]] + [(product, names[0], rng.choice(_UNHAPPY))]
    chars = length(rng)
    while chars > 0:
        mood = _UNHAPPY if rng.random() < 0.4 else _PLEASED
        said.append((rng.choice(others), rng.choice(PEOPLE), rng.choice(mood)))
        chars -= 230
    rng.shuffle(said)
    texts = [f"Review of the {what} by {who}: {sentence(rng)} {mood} {sentence(rng)}" for what, who, mood in said]
    prompt = (
        f"One of the six people who wrote a review of the {product} is not content with it, the others are. "
        "What is the name of that person?"
    )
    return Task("reviews", prompt, "\n\n".join(texts) + "\n", names[0], _any_of(PEOPLE))


_MAKERS = (_needle, _count, _word, _sum, _look_up, _join, _distinct, _highest, _last, _reviews)
