"""Kinds of questions whose runs may be looked at while prompts are tried."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from random import Random

from tests.benchmarks.local_texts import PEOPLE, PLACES, PRODUCTS, SERVICES, paragraphs, sentence, sentences
from tests.benchmarks.questions.grading import Names, Number, YesNo, any_of, one_of
from tests.benchmarks.questions.question import Made, as_csv, as_json_lines, filled, kind

_CENT = 0.006
"""What a rounded amount may be off by."""


def _order(rng: Random, index: int) -> dict[str, object]:
    product = rng.choice(PRODUCTS)
    note = rng.choice(("", "", "gift, wrapped", 'said "soon"', "second try"))
    amount = rng.randint(5, 500)
    return {"order": 10_000 + index, "city": rng.choice(PLACES), "product": product, "amount": amount, "note": note}


def _orders(rng: Random, chars: int) -> list[dict[str, object]]:
    return filled(lambda index: _order(rng, index), chars, as_csv)


@kind("csv-count", "CSV", seen=True)
def csv_count(rng: Random, chars: int) -> Made:
    """Count the rows that meet two conditions."""
    rows, city, least = _orders(rng, chars), rng.choice(PLACES), rng.randint(200, 300)
    right = sum(row["city"] == city and int(str(row["amount"])) > least for row in rows)
    prompt = f"The context is CSV. How many orders of {city} have an amount above {least}?"
    return Made(prompt, as_csv(rows), Number(right))


@kind("csv-group", "CSV", seen=True)
def csv_group(rng: Random, chars: int) -> Made:
    """Find the group with the highest total."""
    rows, totals = _orders(rng, chars), Counter[str]()
    for row in rows:
        totals[str(row["city"])] += int(str(row["amount"]))
    (best, top), (_, second) = totals.most_common(2)
    if top == second:
        rows.append({**_order(rng, len(rows)), "city": best})
    return Made("Which city has the highest total amount?", as_csv(rows), one_of(best, PLACES))


@kind("csv-mean", "CSV", seen=True)
def csv_mean(rng: Random, chars: int) -> Made:
    """Compute the mean of a group."""
    rows, product = _orders(rng, chars), rng.choice(PRODUCTS)
    right = statistics.mean(int(str(row["amount"])) for row in rows if row["product"] == product)
    prompt = f"What is the mean amount of the orders of the product {product}, to two decimals?"
    return Made(prompt, as_csv(rows), Number(round(right, 2), _CENT))


@kind("jsonl-count", "JSON lines", seen=True)
def jsonl_count(rng: Random, chars: int) -> Made:
    """Count nested values."""

    def event(index: int) -> dict[str, object]:
        user = {"name": rng.choice(PEOPLE), "plan": rng.choice(("free", "team", "pro"))}
        return {"id": index, "type": rng.choice(("login", "upload", "share", "delete")), "user": user}

    rows = filled(event, chars, as_json_lines)
    right = sum(row["type"] == "upload" and row["user"]["plan"] == "pro" for row in rows)
    return Made("How many uploads were made by users on the pro plan?", as_json_lines(rows), Number(right))


def _log_lines(rng: Random, chars: int) -> list[tuple[datetime, str, str, str]]:
    clock = datetime(2031, 3, 1)
    lines = []
    while chars > 0:
        clock += timedelta(seconds=rng.randint(1, 90))
        level = rng.choices(("INFO", "WARN", "ERROR"), (85, 10, 5))[0]
        text = rng.choice(("request served", "retry of a request", "cache missed", "peer not found", "queue is full"))
        lines.append((clock, level, rng.choice(SERVICES), f"{text} by host{rng.randint(1, 400)}"))
        chars -= 62
    return lines


def _log(lines: list[tuple[datetime, str, str, str]]) -> str:
    return "".join(f"{at:%Y-%m-%d %H:%M:%S} {level:<5} [{where}] {text}\n" for at, level, where, text in lines)


@kind("log-first", "log", seen=True)
def log_first(rng: Random, chars: int) -> Made:
    """Find the first line of a kind after a time."""
    lines = _log_lines(rng, chars)
    service = rng.choice(SERVICES)
    after = lines[len(lines) // 3][0]
    place = rng.randrange(len(lines) // 2, len(lines) * 2 // 3)
    kept = [line for line in lines[:place] if not (line[1:3] == ("ERROR", service) and line[0] > after)]
    at, _, _, _ = lines[place]
    host = rng.randint(1000, 9999)
    kept.append((at, "ERROR", service, f"queue is full by host{host}"))
    kept += lines[place + 1 :]
    prompt = f"Which host is named in the first ERROR of the service {service} after {after:%Y-%m-%d %H:%M:%S}?"
    return Made(prompt, _log(kept), Names((f"host{host}",), r"\bhost\d+\b"))


@kind("log-distinct", "log", seen=True)
def log_distinct(rng: Random, chars: int) -> Made:
    """Count different values among some lines."""
    lines = _log_lines(rng, chars)
    right = len({text.split()[-1] for _, level, _, text in lines if level == "WARN"})
    return Made("How many different hosts are named in lines of level WARN?", _log(lines), Number(right))


def _with(rng: Random, chars: int, facts: list[str]) -> str:
    said = sentences(rng, chars)
    for fact in facts:
        said.insert(rng.randrange(len(said) + 1), fact)
    return paragraphs(said)


@kind("prose-needle", "prose", seen=True)
def prose_needle(rng: Random, chars: int) -> Made:
    """Find one fact that is asked for in other words."""
    name, *others = rng.sample(PEOPLE, 3)
    animals = rng.sample(("heron", "badger", "otter", "lynx", "raven", "hare"), 3)
    facts = [f"On {name}'s coat of arms one sees a {animals[0]}."]
    facts += [f"{other} keeps a {animal} in the garden." for other, animal in zip(others, animals[1:], strict=True)]
    prompt = f"What animal is shown in the heraldic emblem of {name}?"
    return Made(prompt, _with(rng, chars, facts), one_of(animals[0], animals))


@kind("prose-multi-key", "prose", seen=True)
def prose_multi_key(rng: Random, chars: int) -> Made:
    """Find one of many facts of the same form (RULER, arXiv 2404.06654, multi-key)."""
    words = rng.sample([f"{a}-{b}" for a in PRODUCTS for b in PLACES], 100)
    numbers = rng.sample(range(1_000_000, 10_000_000), 100)
    facts = [f"The special magic number for {word} is: {number}." for word, number in zip(words, numbers, strict=True)]
    prompt = f"What is the special magic number for {words[0]} mentioned in the text?"
    return Made(prompt, _with(rng, chars, facts), Number(numbers[0]))


@kind("prose-is-it-there", "prose", seen=True)
def prose_is_it_there(rng: Random, chars: int) -> Made:
    """Say whether something is said at all: one time in two it is not."""
    is_there = rng.random() < 0.5
    who, other = rng.sample(PEOPLE, 2)
    place, elsewhere = rng.sample(PLACES, 2)
    facts = [f"{who} once spent a summer in {elsewhere}.", f"{other} once spent a summer in {place}."]
    facts += [f"{who} once spent a summer in {place}."] * is_there
    prompt = f"Does the text say that {who} spent a summer in {place}? Answer yes or no."
    return Made(prompt, _with(rng, chars, facts), YesNo(is_there))


@kind("prose-two-hops", "prose", seen=True)
def prose_two_hops(rng: Random, chars: int) -> Made:
    """Join what is said in two places."""
    people, places = rng.sample(PEOPLE, 12), rng.sample(PLACES, 12)
    ships = ("Albatross", "Cormorant", "Dunlin", "Eider", "Fulmar", "Gannet")
    facts = [f"The {ship} was built in {place}." for ship, place in zip(ships, places, strict=False)]
    facts += [f"{person} sailed on the {ship}." for ship, person in zip(ships, people, strict=False)]
    prompt = f"In which place was the ship built that {people[2]} sailed on?"
    return Made(prompt, _with(rng, chars, facts), one_of(places[2], PLACES))


@kind("prose-visits", "prose", seen=True)
def prose_visits(rng: Random, chars: int) -> Made:
    """List all that is said of one, among many facts of the same form."""
    people = rng.sample(PEOPLE, 12)
    trips = {person: rng.sample(PLACES, 4) for person in people}
    facts = [f"In that year {person} travelled to {place}." for person, places in trips.items() for place in places]
    rng.shuffle(facts)
    prompt = f"To which places did {people[0]} travel? List them all, separated by commas."
    return Made(prompt, _with(rng, chars, facts), Names(tuple(sorted(trips[people[0]])), any_of(PLACES)))


@kind("prose-correction", "prose", seen=True)
def prose_correction(rng: Random, chars: int) -> Made:
    """Tell what holds where the text corrects itself."""
    people, ages = rng.sample(PEOPLE, 8), rng.sample(range(20, 90), 9)
    facts = [f"{person} was {age} years old." for person, age in zip(people, ages[1:], strict=True)]
    facts.append(f"The register was corrected afterwards: {people[0]} was in truth {ages[0]} years old.")
    prompt = f"How old was {people[0]} in truth? Give the number."
    return Made(prompt, _with(rng, chars, facts), Number(ages[0]))


@kind("list-longest", "list of texts", seen=True)
def list_longest(rng: Random, chars: int) -> Made:
    """Find the extreme of a list by its parts."""
    titles = [f"{rng.choice(PRODUCTS)} {number}" for number in rng.sample(range(1_000, 100_000), max(20, chars // 400))]
    items = [f"# {title}\n{paragraphs(sentences(rng, rng.randint(100, 500)))}" for title in titles]
    longest = rng.randrange(len(items))
    items[longest] += "\n\n" + paragraphs(sentences(rng, 700))
    prompt = "Each item begins with its title after a #. What is the title of the item with the most words?"
    return Made(prompt, items, Names((titles[longest],), r"\b[a-z]+ \d+\b"))


@kind("dict-look-up", "dict", seen=True)
def dict_look_up(rng: Random, chars: int) -> Made:
    """Look a nested value up by another one."""
    rooms = [f"{rng.choice('ABCDEF')}-{number}" for number in rng.sample(range(1_000, 100_000), max(40, chars // 130))]
    data = {
        f"asset{index:05}": {
            "serial": f"S{rng.randint(10**7, 10**8)}",
            "place": {"site": rng.choice(PLACES), "room": room},
            "tags": rng.sample(PRODUCTS, 2),
        }
        for index, room in enumerate(rooms)
    }
    key, entry = rng.choice(sorted(data.items()))
    serial, room = str(entry["serial"]), rooms[int(key[5:])]
    return Made(f"In which room is the asset with the serial {serial}?", data, Names((room,), r"\b[A-F]-\d+\b"))


@kind("frame-median", "data frame", seen=True)
def frame_median(rng: Random, chars: int) -> Made:
    """Compute a median of a group."""
    rows, city = _orders(rng, chars), rng.choice(PLACES)
    right = statistics.median(int(str(row["amount"])) for row in rows if row["city"] == city)
    prompt = f"What is the median of the amount where the city is {city}?"
    return Made(prompt, as_csv(rows), Number(right), "frame")


@kind("code-callers", "source code", seen=True)
def code_callers(rng: Random, chars: int) -> Made:
    """Count the functions that call another one."""
    names = [f"{verb}_{noun}" for verb in ("load", "parse", "check", "send") for noun in PRODUCTS]
    target = rng.choice(names)
    functions, callers, index = [], 0, 0
    while chars > 0:
        calls = rng.sample(names, 3)
        callers += target in calls
        body = "".join(f"    value = {call}(value, {rng.randint(1, 99)})\n" for call in calls)
        comment = f"    # not {target} any more\n" if rng.random() < 0.02 else ""
        functions.append(f"def step_{index}(value):\n{comment}{body}    return value\n")
        chars -= len(functions[-1]) + 2
        index += 1
    prompt = f"How many functions call `{target}`? A comment that names it is no call."
    return Made(prompt, "\n\n".join(functions), Number(callers))


@kind("documents-mention", "documents", seen=True)
def documents_mention(rng: Random, chars: int) -> Made:
    """Count the documents in which a name occurs."""
    documents, right, person = [], 0, rng.choice(PEOPLE)
    while chars > 0:
        said = sentences(rng, rng.randint(300, 1500))
        times = rng.choices((0, 1, 3), (80, 14, 6))[0]
        for _ in range(times):
            said.insert(rng.randrange(len(said) + 1), f"{person} took the floor.")
        right += times > 0
        documents.append(paragraphs(said))
        chars -= len(documents[-1])
    return Made(f"In how many of the documents is {person} mentioned?", documents, Number(right))


_GERMAN = (
    "Der Pfarrer sprach lange über die Ernte.",
    "Im Winter blieb die Straße zum Steinbruch gesperrt.",
    "Die Fähre legte pünktlich ab, obwohl es stürmte.",
    "Niemand wusste, wer die Glocke geläutet hatte.",
    "Am Abend saßen alle in der Küche und schwiegen.",
)


@kind("german-needle", "German prose", seen=True)
def german_needle(rng: Random, chars: int) -> Made:
    """Find a fact in another language than the question's."""
    places, years = rng.sample(PLACES, 6), rng.sample(range(1700, 1900), 6)
    said = [rng.choice(_GERMAN) for _ in range(max(40, chars // 48))]
    for place, year in zip(places, years, strict=True):
        said.insert(rng.randrange(len(said)), f"Das Rathaus von {place} wurde im Jahre {year} errichtet.")
    return Made(f"In which year was the town hall of {places[0]} built?", paragraphs(said), Number(years[0]))


@kind("classify-count", "items", seen=True)
def classify_count(rng: Random, chars: int) -> Made:
    """Count items by a label that the text states: the form of OOLONG's synthetic tasks (arXiv 2511.02817)."""
    labels = ("praise", "complaint", "question", "order")
    lines: list[str] = []
    counts: defaultdict[tuple[int, str], int] = defaultdict(int)
    while chars > 0:
        user, label = rng.randint(1, 60), rng.choice(labels)
        lines.append(f"User: u{user} || Instance: {sentence(rng)} || Label: {label}")
        counts[user, label] += 1
        chars -= len(lines[-1]) + 1
    (user, label), right = rng.choice(sorted(counts.items()))
    prompt = f"Among the instances of user u{user}, how many have the label '{label}'? Give the number."
    return Made(prompt, "\n".join(lines) + "\n", Number(right, partial=True))


@kind("jsonl-outlier", "JSON lines", seen=True)
def jsonl_outlier(rng: Random, chars: int) -> Made:
    """Find the record that is far from all others of its kind."""

    def record(index: int) -> dict[str, object]:
        sensor = rng.choice(("roof", "cellar", "pool"))
        normal = {"roof": (0, 20), "cellar": (10, 14), "pool": (24, 28)}[sensor]
        return {"id": 50_000 + index, "sensor": sensor, "celsius": round(rng.uniform(*normal), 1)}

    rows = filled(record, chars, as_json_lines)
    odd = rng.randrange(len(rows))
    rows[odd] = {**rows[odd], "sensor": "cellar", "celsius": round(rng.uniform(18, 20), 1)}
    prompt = "One reading of the sensor in the cellar is far from all the others of that sensor. What is its id?"
    return Made(prompt, as_json_lines(rows), Number(rows[odd]["id"]))


@kind("log-gap", "log", seen=True)
def log_gap(rng: Random, chars: int) -> Made:
    """Find the longest silence between two lines."""
    clock, lines = datetime(2031, 5, 4, 6), []
    count = max(60, chars // 45)
    gap = rng.randrange(count // 4, count * 3 // 4)
    seconds = rng.randint(1000, 3000)
    for index in range(count):
        clock += timedelta(seconds=seconds if index == gap else rng.randint(1, 500))
        lines.append(f"[{clock.isoformat()}] {rng.choice(SERVICES)}: heartbeat\n")
    prompt = "How many seconds is the longest time between two consecutive lines?"
    return Made(prompt, "".join(lines), Number(seconds))
