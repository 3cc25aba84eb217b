"""Kinds of questions that are run for the final table alone: nobody looks at their runs to try a prompt."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from datetime import date, timedelta
from itertools import pairwise
from random import Random

from tests.benchmarks.local_texts import PEOPLE, PLACES, PRODUCTS, SERVICES, paragraphs, sentence, sentences
from tests.benchmarks.questions.grading import DATE, Names, Number, any_of, one_of
from tests.benchmarks.questions.question import Made, as_csv, as_json_lines, filled, kind

_CENT = 0.006
_DAY = date(2032, 1, 1)


@kind("csv-join", "two tables", seen=False)
def csv_join(rng: Random, chars: int) -> Made:
    """Join two tables that stand in one text."""
    people = rng.sample(PEOPLE, 40)
    numbers = rng.sample(range(100, 1000), 40)
    table = as_csv([{"customer": n, "name": who} for n, who in zip(numbers, people, strict=True)])

    def sale(index: int) -> dict[str, object]:
        return {"sale": index, "customer": rng.choice(numbers), "total": rng.randint(1, 900)}

    sales = filled(sale, chars, as_csv)
    place = rng.randrange(40)
    right = sum(row["total"] for row in sales if row["customer"] == numbers[place])
    text = f"## customers\n{table}\n## sales\n{as_csv(sales)}"
    return Made(f"What is the sum of the totals of all sales to {people[place]}?", text, Number(right))


@kind("log-duplicates", "log", seen=False)
def log_duplicates(rng: Random, chars: int) -> Made:
    """Find what occurs twice."""
    count = max(60, chars // 52)
    numbers = rng.sample(range(10**6, 10**7), count)
    twice = sorted(rng.sample(numbers, 3))
    numbers += twice
    rng.shuffle(numbers)
    lines = [f"INFO {rng.choice(SERVICES)} transaction={number} ms={rng.randint(1, 999)}\n" for number in numbers]
    prompt = "Which transactions were logged twice? Give their numbers."
    return Made(prompt, "".join(lines), Names(tuple(map(str, twice)), r"\b\d{7}\b"))


def _among(rng: Random, chars: int, facts: list[str]) -> str:
    said = sentences(rng, chars)
    for fact in facts:
        said.insert(rng.randrange(len(said) + 1), fact)
    return paragraphs(said)


def _in_order(rng: Random, chars: int, facts: list[str]) -> str:
    said = sentences(rng, chars)
    for place, fact in zip(
        sorted(rng.sample(range(len(said)), len(facts)), reverse=True), reversed(facts), strict=True
    ):
        said.insert(place, fact)
    return paragraphs(said)


@kind("prose-multi-value", "prose", seen=False)
def prose_multi_value(rng: Random, chars: int) -> Made:
    """Find all values of one key (RULER, arXiv 2404.06654, multi-value)."""
    keys = rng.sample(PLACES, 5)
    numbers = rng.sample(range(100_000, 1_000_000), 20)
    facts = [f"One of the special magic numbers for {keys[i % 5]} is: {number}." for i, number in enumerate(numbers)]
    right = tuple(map(str, sorted(numbers[::5])))
    prompt = f"What are all the special magic numbers for {keys[0]} mentioned in the text?"
    return Made(prompt, _among(rng, chars, facts), Names(right, r"\b\d{6}\b"))


@kind("prose-variables", "prose", seen=False)
def prose_variables(rng: Random, chars: int) -> Made:
    """Follow a value through assignments (RULER, variable tracking)."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    names = rng.sample([a + b + c for a in letters for b in letters for c in letters], 20)
    values = rng.sample(range(10_000, 100_000), 4)
    facts = []
    for chain in range(4):
        own = names[chain * 5 : chain * 5 + 5]
        facts.append([f"VAR {own[0]} = {values[chain]}."])
        facts[-1] += [f"VAR {later} = VAR {earlier}." for earlier, later in pairwise(own)]
    text = _in_order(rng, chars, [fact for step in zip(*facts, strict=True) for fact in step])
    prompt = (
        f"Which variables are assigned the value {values[0]}, directly or through other variables? Name all of them."
    )
    return Made(prompt, text, Names(tuple(names[:5]), rf"\b(?:{'|'.join(names)})\b"))


@kind("words-common", "word list", seen=False)
def words_common(rng: Random, chars: int) -> Made:
    """Find the most frequent words (RULER, common words)."""
    pool = [
        f"{a}{b}" for a in ("bar", "cor", "den", "fal", "gim", "lor") for b in ("ton", "wick", "mere", "ley", "dale")
    ]
    common, rare = pool[:3], pool[3:]
    rng.shuffle(pool)
    common, rare = pool[:3], pool[3:]
    count = max(300, chars // 9)
    words = [word for word in common for _ in range(count // 20)]
    words += [rng.choice(rare) for _ in range(count - len(words))]
    most = Counter(words).most_common(4)
    if {word for word, _ in most[:3]} != set(common):  # a rare word came too often: put common ones in its place
        words += [word for word in common for _ in range(most[0][1])]
    rng.shuffle(words)
    prompt = "Which three words occur most often in the list?"
    return Made(prompt, " ".join(words), Names(tuple(sorted(common)), any_of(pool)))


@kind("graph-reach", "edges of a graph", seen=False)
def graph_reach(rng: Random, chars: int) -> Made:
    """Walk a graph two steps (GraphWalks)."""
    count = max(40, chars // 26)
    nodes = [f"n{number:06x}" for number in rng.sample(range(16**6), count)]
    edges = [(rng.choice(nodes), rng.choice(nodes)) for _ in range(count)]
    start, *others = rng.sample(nodes, 7)
    edges = [(a, b) for a, b in edges if a != start and a not in others]
    edges += [(start, others[0]), (start, others[1]), (others[0], others[2]), (others[0], others[3])]
    edges += [(others[1], others[3]), (others[1], others[4])]
    rng.shuffle(edges)
    text = "".join(f"{a} -> {b}\n" for a, b in edges)
    prompt = f"Which nodes are reached from {start} in exactly two steps along the directed edges?"
    return Made(prompt, text, Names(tuple(sorted(others[2:5])), r"\bn[0-9a-f]{6}\b"))


@kind("pairs", "items", seen=False)
def pairs(rng: Random, chars: int) -> Made:
    """Count pairs of users that meet a condition together (OOLONG-Pairs)."""
    tags: defaultdict[int, set[str]] = defaultdict(set)
    lines, savers = [], set(rng.sample(range(1, 31), rng.randint(4, 12)))
    while chars > 0:
        user = rng.randint(1, 30)
        tag = rng.choices(("travel", "food", "health", "money"), (30, 30, 30, 20 if user in savers else 0))[0]
        tags[user].add(tag)
        lines.append(f"u{user} | {tag} | {sentence(rng)}")
        chars -= len(lines[-1]) + 1
    able = [user for user in tags if "money" in tags[user]]
    right = len(able) * (len(able) - 1) // 2
    prompt = "How many unordered pairs of different users are there in which both users have an entry tagged money?"
    return Made(prompt, "\n".join(lines) + "\n", Number(right))


@kind("contradiction", "prose", seen=False)
def contradiction(rng: Random, chars: int) -> Made:
    """Heed what a later source corrects."""
    places = rng.sample(PLACES, 5)
    old, new = rng.sample(range(1_000, 10_000), 5), rng.sample(range(1_000, 10_000), 5)
    said = [f"{place} has {count} inhabitants." for place, count in zip(places, old, strict=True)]
    mended = [
        f"Correction: the figure for {place} given above is wrong; it has {count} inhabitants."
        for place, count in zip(places[:3], new, strict=False)
    ]
    place = rng.randrange(3)
    prompt = f"How many inhabitants does {places[place]} have, all corrections considered?"
    return Made(prompt, _in_order(rng, chars, [*said, *mended]), Number(new[place]))


@kind("names-set", "prose", seen=False)
def names_set(rng: Random, chars: int) -> Made:
    """Collect all names of which something is said in several ways."""
    people, place = rng.sample(PEOPLE, 12), rng.choice(PLACES)
    ways = ("{} was born in {}.", "{} first saw the light of day in {}.", "The birthplace of {} is {}.")
    facts = [ways[i % 3].format(person, place) for i, person in enumerate(people[:4])]
    facts += [f"{person} died in {place}." for person in people[4:8]]
    facts += [f"{person} was born in {rng.choice([p for p in PLACES if p != place])}." for person in people[8:]]
    text = _among(rng, chars, facts)
    return Made(f"Name all people who were born in {place}.", text, Names(tuple(people[:4]), any_of(people)))


@kind("event-order", "prose", seen=False)
def event_order(rng: Random, chars: int) -> Made:
    """Sort events by the dates that the text gives them."""
    events = rng.sample(("flood", "fire", "strike", "election", "fair", "eclipse"), 4)
    dates = [_DAY + timedelta(days=days) for days in sorted(rng.sample(range(2000), 4))]
    facts = [f"The {event} was on {at:%-d %B %Y}." for event, at in zip(events, dates, strict=True)]
    asked = sorted(events)
    prompt = f"Put these events into the order in which they took place, the earliest first: {', '.join(asked)}."
    return Made(prompt, _among(rng, chars, facts), Names(tuple(events), any_of(events), ordered=True))


@kind("records-sum", "list of dicts", seen=False)
def records_sum(rng: Random, chars: int) -> Made:
    """Sum a field over a list of dicts, some of which lack it."""

    def record(index: int) -> dict[str, object]:
        made: dict[str, object] = {"id": index, "status": rng.choice(("paid", "open", "void"))}
        if rng.random() < 0.9:
            made["hours"] = rng.randint(1, 40)
        return made

    rows = filled(record, chars, as_json_lines)
    right = sum(int(row.get("hours", 0)) for row in rows if row["status"] == "open")
    return Made("How many hours do the records with the status open have in all?", rows, Number(right))


@kind("dict-extreme", "dict", seen=False)
def dict_extreme(rng: Random, chars: int) -> Made:
    """Find the key whose list is the most varied."""
    keys = [f"station{number}" for number in rng.sample(range(1_000, 100_000), max(30, chars // 140))]
    data = {key: [rng.randint(100, 120) for _ in range(25)] for key in keys}
    top = rng.choice(keys)
    data[top] = [*rng.sample(range(100, 130), 25)]
    prompt = "Which station has the most different values in its list?"
    return Made(prompt, data, Names((top,), r"\bstation\d+\b"))


@kind("frame-distinct", "data frame", seen=False)
def frame_distinct(rng: Random, chars: int) -> Made:
    """Count different values of a group, given by a date."""

    def visit(index: int) -> dict[str, object]:
        at = date(2031, 1, 1) + timedelta(days=rng.randrange(365))
        return {
            "visit": index,
            "day": at.isoformat(),
            "visitor": f"v{rng.randint(1, max(200, chars // 50))}",
            "page": rng.choice("abc"),
        }

    rows = filled(visit, chars, as_csv)
    month = rng.randint(1, 12)
    right = len({row["visitor"] for row in rows if int(str(row["day"])[5:7]) == month})
    name = date(2031, month, 1).strftime("%B")
    return Made(f"How many different visitors were there in {name}?", as_csv(rows), Number(right), "frame")


@kind("code-imports", "source code", seen=False)
def code_imports(rng: Random, chars: int) -> Made:
    """Find the module that most files import."""
    modules = [f"{a}_{b}" for a in ("net", "disk", "user", "mail") for b in ("core", "cache", "tools", "types")]
    files, counts, index = [], Counter[str](), 0
    favourite = rng.choice(modules)
    while chars > 0 or counts.most_common(2)[0][1] == counts.most_common(2)[1][1]:
        used = set(rng.sample(modules, 3)) | ({favourite} if rng.random() < 0.4 else set())
        counts.update(used)
        lines = [rng.choice((f"import {name}", f"from {name} import *")) for name in sorted(used)]
        body = "\n".join(f"x{rng.randint(1, 99)} = {rng.choice(modules)}.run()" for _ in range(6))
        files.append(f"# file: part{index}.py\n" + "\n".join(lines) + f"\n\n{body}\n")
        chars -= len(files[-1]) + 1
        index += 1
    best = counts.most_common(1)[0][0]
    return Made("Which module is imported by the most files?", "\n".join(files), one_of(best, modules))


@kind("documents-latest", "documents", seen=False)
def documents_latest(rng: Random, chars: int) -> Made:
    """Take what the latest of several documents says."""
    documents: list[str] = []
    said: dict[date, int] = {}
    product = rng.choice(PRODUCTS)
    days = iter(rng.sample(range(4000), 4000))
    while chars > 0:
        at = _DAY - timedelta(days=next(days))
        body = sentences(rng, rng.randint(2000, 4000))
        if rng.random() < 0.5 or not said:
            price = rng.randint(100, 1000)
            said[at] = price
            body.insert(rng.randrange(len(body)), f"The {product} is sold at {price} crowns.")
        documents.append(f"Date: {at.isoformat()}\n\n{paragraphs(body)}")
        chars -= len(documents[-1])
    prompt = f"What is the price of the {product}, in crowns, according to the latest document that gives it?"
    return Made(prompt, documents, Number(said[max(said)]))


_FRENCH = (
    "Le facteur passait chaque matin devant l'église.",
    "On parla longtemps de la vendange et du prix du bois.",
    "Personne ne savait d'où venait la barque.",
    "Le soir, le vent tourna et la pluie cessa.",
    "Les enfants jouaient près du vieux moulin.",
)


@kind("french-needle", "French prose", seen=False)
def french_needle(rng: Random, chars: int) -> Made:
    """Find a person in another language than the question's."""
    people, places = rng.sample(PEOPLE, 6), rng.sample(PLACES, 6)
    said = [rng.choice(_FRENCH) for _ in range(max(40, chars // 48))]
    for person, place in zip(people, places, strict=True):
        said.insert(rng.randrange(len(said)), f"C'est à {person} que revint la maison de {place}.")
    return Made(f"Who inherited the house of {places[0]}?", paragraphs(said), one_of(people[0], people))


@kind("three-hops", "prose", seen=False)
def three_hops(rng: Random, chars: int) -> Made:
    """Join what is said in three places."""
    people, places = rng.sample(PEOPLE, 10), rng.sample(PLACES, 5)
    facts = [f"{a} is the teacher of {b}." for a, b in zip(people[:5], people[5:], strict=True)]
    facts += [f"{b} lives in {place}." for b, place in zip(people[5:], places, strict=True)]
    codes = rng.sample(range(10_000, 100_000), 5)
    facts += [f"The post code of {place} is {code}." for place, code in zip(places, codes, strict=True)]
    prompt = f"What is the post code of the place in which the pupil of {people[0]} lives?"
    return Made(prompt, _among(rng, chars, facts), Number(codes[0]))


@kind("days-between", "prose", seen=False)
def days_between(rng: Random, chars: int) -> Made:
    """Compute with two dates that are told in different places."""
    bridge, hall = (_DAY - timedelta(days=days) for days in sorted(rng.sample(range(3000), 2), reverse=True))
    others = rng.sample(("mill", "school", "lighthouse", "market"), 2)
    facts = [f"The bridge was opened on {bridge:%d.%m.%Y}.", f"The town hall was opened on {hall:%d.%m.%Y}."]
    facts += [f"The {what} was opened on {_DAY - timedelta(days=rng.randrange(3000)):%d.%m.%Y}." for what in others]
    prompt = "How many days after the bridge was the town hall opened? (Dates are written day.month.year.)"
    return Made(prompt, _among(rng, chars, facts), Number((hall - bridge).days))


@kind("log-latest-date", "log", seen=False)
def log_latest_date(rng: Random, chars: int) -> Made:
    """Find the day with the most lines of a level."""
    days = [date(2031, 7, 1) + timedelta(days=n) for n in range(20)]
    lines: list[str] = []
    while sum(map(len, lines[:30])) / max(1, len(lines[:30])) * len(lines) < chars:
        lines.append(
            f"{rng.choice(days)} {rng.choices(('ok', 'slow', 'lost'), (80, 15, 5))[0]} job{rng.randint(1, 99)}\n"
        )
    counts = Counter(line.split()[0] for line in lines if " lost " in line)
    best = counts.most_common(1)[0][0] if counts else str(days[0])
    lines += [f"{best} lost job{rng.randint(1, 99)}\n" for _ in range(2)]
    lines.sort(key=lambda line: line[:10])
    return Made("On which day (YYYY-MM-DD) were the most jobs lost?", "".join(lines), Names((best,), DATE))


@kind("frame-spread", "data frame", seen=False)
def frame_spread(rng: Random, chars: int) -> Made:
    """Compute a deviation of a column by group."""
    rows = filled(lambda i: {"batch": rng.choice("PQRS"), "weight": round(rng.gauss(50, 4), 1)}, chars, as_csv)
    batch = rng.choice("PQRS")
    weights = [float(row["weight"]) for row in rows if row["batch"] == batch]
    right = round(max(weights) - min(weights), 1)
    prompt = f"What is the difference between the highest and the lowest weight of batch {batch}?"
    return Made(prompt, as_csv(rows), Number(right, _CENT), "frame")


@kind("survey-mean", "items", seen=False)
def survey_mean(rng: Random, chars: int) -> Made:
    """Compute a mean of what is written in words."""
    words = ("one", "two", "three", "four", "five")
    lines: list[str] = []
    stars: list[int] = []
    product = rng.choice(PRODUCTS)
    while chars > 0 or not stars:
        about, given = rng.choice(PRODUCTS), rng.randint(1, 5)
        lines.append(f"{rng.choice(PEOPLE)} on the {about}: {words[given - 1]} stars. {sentence(rng)}")
        if about == product:
            stars.append(given)
        chars -= len(lines[-1]) + 1
    right = round(statistics.mean(stars), 2)
    prompt = f"How many stars did the {product} get on average, to two decimals?"
    return Made(prompt, "\n".join(lines) + "\n", Number(right, _CENT))
