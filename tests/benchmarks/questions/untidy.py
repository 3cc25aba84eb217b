"""Kinds of questions about data as it comes, for the final table alone: nobody looks at their runs to try a prompt."""

from __future__ import annotations

import csv
import io
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from random import Random
from typing import Any

from tests.benchmarks.local_texts import PEOPLE, PLACES, PRODUCTS
from tests.benchmarks.questions.grading import Names, Number, any_of, one_of
from tests.benchmarks.questions.question import Made, as_csv, as_json_lines, filled, kind

_CENT = 0.006
_START = datetime(2031, 3, 4, 6)
_KEYS = ("serial", "maker", "bought", "price", "room", "warranty", "weight", "supplier", "colour")
_PATHS = ("/", "/index.html", "/cart?step=2", "/search?q=old mill", "/img/logo.png", "/api/v2/items")
_AGENTS = ("Mozilla/5.0 (X11; Linux x86_64)", "curl/8.5.0", 'Bot \\"Nib\\" 200 1.1', "-")
_HIT = '{client} - - [{at:%d/%b/%Y:%H:%M:%S} +0000] "{request}" {status} {bytes} "{referrer}" "{agent}"\n'
_ERRORS = ("KeyError", "ValueError", "TimeoutError", "PermissionError", "ZeroDivisionError", "EOFError")
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"


def _separated(rows: Sequence[Sequence[object]], by: str) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=by, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _top(rows: Sequence[dict[str, Any]], group: str, value: str) -> str:
    """Return the group with the highest total, after a change to one of its rows where two are equal."""
    totals = Counter[str]()
    for row in rows:
        totals[row[group]] += row[value]
    (best, most), (_, second) = totals.most_common(2)
    if most == second:
        next(row for row in rows if row[group] == best)[value] += 7
    return best


@kind("csv-line-breaks", "CSV", seen=False)
def csv_line_breaks(rng: Random, chars: int) -> Made:
    """Add up a column behind one whose cells hold commas, quotes and line breaks."""

    def ticket(index: int) -> dict[str, object]:
        state, minutes = rng.choice(("open", "closed", "waiting")), rng.randint(3, 240)
        copied = f'mail:\n{rng.randint(1000, 9999)},"no, thanks",open,{rng.randint(3, 240)},{rng.choice(PEOPLE)}\nbye'
        remark = rng.choice(("", "done, at last", 'asked for "later, please"', "rang twice,\nnobody was in", copied))
        own = {"ticket": 40_000 + index, "remark": remark, "state": state}
        return {**own, "minutes": minutes, "agent": rng.choice(PEOPLE)}

    rows = filled(ticket, chars, as_csv)
    right = sum(row["minutes"] for row in rows if row["state"] == "open")
    prompt = "The context is CSV. How many minutes were spent in total on the tickets whose state is open?"
    return Made(prompt, as_csv(rows), Number(right))


@kind("bank-statement", "bank statement", seen=True)
def bank_statement(rng: Random, chars: int) -> Made:
    """Add up amounts with decimal commas, below a preamble."""
    payees, balance, cents = rng.sample(PEOPLE, 8), 0, Counter[str]()

    def booking(index: int) -> tuple[str, ...]:
        nonlocal balance
        payee, amount = rng.choice(payees), rng.randint(-200_000, 600_000)
        balance += amount
        cents[payee] += amount
        purpose = f"{rng.choice(('invoice', 'rent; share', 'refund', 'order; second part'))} {rng.randint(100, 999)}"
        written = [f"{n / 100:,.2f}".translate(str.maketrans(",.", ".,")) for n in (amount, balance)]
        return f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.2031", payee, purpose, *written

    rows = filled(booking, chars, lambda some: _separated(some, ";"))
    head = f"Account;{rng.randint(10**8, 10**9)}\nHolder;{rng.choice(PEOPLE)}\n\nDate;Payee;Purpose;Amount;Balance\n"
    prompt = f"What do the amounts of payee {payees[0]} add up to? Give it with a decimal point."
    return Made(prompt, head + _separated(rows, ";"), Number(cents[payees[0]] / 100, _CENT))


@kind("tsv-empty-cells", "tab-separated table", seen=False)
def tsv_empty_cells(rng: Random, chars: int) -> Made:
    """Compute the mean of what is there of a column."""
    stations, rate = rng.sample(PLACES, 6), rng.uniform(0.1, 0.4)

    def reading(index: int) -> tuple[object, ...]:
        rain = rng.choices(("", 0.0, round(rng.expovariate(rate), 1)), (3, 2, 5))[0]
        observer, note = rng.choice(("", rng.choice(PEOPLE))), rng.choice(("", "", "gauge cleaned"))
        return rng.choice(stations), observer, rng.choice(("", round(rng.gauss(9, 6), 1))), rain, note

    rows = filled(reading, chars, lambda some: _separated(some, "\t"))
    right = statistics.mean(row[3] for row in rows if row[0] == stations[0] and row[3] != "")
    prompt = f"What is the mean of rain_mm of the station {stations[0]}, to two decimals? Empty cells are left out."
    text = _separated([("station", "observer", "celsius", "rain_mm", "note"), *rows], "\t")
    return Made(prompt, text, Number(round(right, 2), _CENT))


def _written(rng: Random, day: date) -> str:
    return rng.choice((f"{day}", f"{day:%d.%m.%Y}", f"{day:%b} {day.day}, {day.year}"))


@kind("headless-dates", "CSV without a header", seen=False)
def headless_dates(rng: Random, chars: int) -> Made:
    """Find the latest of dates that are written in several ways."""
    places, end = rng.sample(PLACES, 6), date(2031, 3, 1)

    def contract(index: int) -> list[object]:
        day = end - timedelta(days=rng.randrange(7000))
        own = [f"K{100_000 + 7 * index + rng.randrange(7)}", rng.choice(PEOPLE), _written(rng, day)]
        return [*own, rng.choice(places), rng.randint(90, 9000)]

    rows = filled(contract, chars, lambda some: _separated(some, ","))
    last, other = rng.sample(range(len(rows)), 2)
    rows[last][2:4] = _written(rng, end + timedelta(days=rng.randint(1, 60))), places[0]
    rows[other][2:4] = _written(rng, end + timedelta(days=rng.randint(61, 90))), places[1]
    prompt = (
        "The context is CSV without a header: contract number, customer, day of signing (as 2029-11-04, 04.11.2029 with "
        f"the day first, or Nov 4, 2029), place, fee. What is the number of the contract signed last in {places[0]}?"
    )
    return Made(prompt, _separated(rows, ","), Names((rows[last][0],), r"\bK\d{6}\b"))


def _pipe_table(rows: Sequence[Mapping[str, Any]]) -> str:
    line = "| {shipment:>8} | {harbour:<14} | {remark:<26} | {tonnes:>8} |\n"
    head = line.format_map({key: key for key in ("shipment", "harbour", "remark", "tonnes")})
    head += f"|{'-' * 9}:|:{'-' * 15}|:{'-' * 27}|{'-' * 9}:|\n"
    return head + "".join(line.format_map({**row, "tonnes": f"{row['tenths'] / 10:,.1f}"}) for row in rows)


@kind("pipe-table", "Markdown table", seen=False)
def pipe_table(rng: Random, chars: int) -> Made:
    """Find the group with the highest total, in a table some of whose cells hold the separator."""
    harbours = rng.sample(PLACES, 7)

    def shipment(index: int) -> dict[str, Any]:
        harbour = rng.choice(harbours)
        is_odd = rng.random() < (0.6 if harbour == harbours[0] else 0.1)
        remark = f"{rng.choice(PRODUCTS)} \\| {rng.choice(PRODUCTS)}" if is_odd else rng.choice(("", "dry", "on deck"))
        tenths = rng.randint(60_00, 320_00) if harbour == harbours[0] else rng.randint(5_00, 260_00)
        return {"shipment": 7000 + index, "harbour": harbour, "remark": remark, "tenths": tenths}

    rows = filled(shipment, chars, _pipe_table)
    best = _top(rows, "harbour", "tenths")
    prompt = "Which harbour has the highest total of tonnes? In a cell, \\| stands for a bar that separates nothing."
    return Made(prompt, _pipe_table(rows), one_of(best, PLACES))


@kind("jsonl-missing", "JSON lines", seen=False)
def jsonl_missing(rng: Random, chars: int) -> Made:
    """Count the records without a nested value."""
    share = rng.uniform(0.2, 0.5)

    def device(index: int) -> dict[str, object]:
        firmware: object = {"channel": "beta", "version": f"{rng.randint(1, 5)}.{rng.randint(0, 20)}"}
        if rng.random() < share:
            firmware = rng.choice((None, {"channel": "beta"}, {"channel": "stable", "version": None}, ...))
        own = {"device": f"d{index}", "os": {"name": "tiny", "version": f"{rng.randint(1, 9)}.0"}}
        return {**own, **({} if firmware is ... else {"firmware": firmware}), "site": rng.choice(PLACES)}

    rows = filled(device, chars, as_json_lines)
    right = sum((row.get("firmware") or {}).get("version") is None for row in rows)
    prompt = "How many devices have no firmware version because it, or the firmware as a whole, is null or missing?"
    return Made(prompt, as_json_lines(rows), Number(right))


@kind("list-missing", "list of dicts", seen=True)
def list_missing(rng: Random, chars: int) -> Made:
    """Name the keys that a few records lack."""

    def asset(index: int) -> dict[str, object]:
        price, weight = rng.choice((rng.randint(20, 900), "95")), round(rng.uniform(0.1, 40), 1)
        own = (f"S{rng.randint(10**6, 10**7)}", rng.choice(PEOPLE), rng.randint(2010, 2031), price)
        more = (rng.choice((None, f"{rng.choice('ABC')}{rng.randint(1, 99)}")), rng.choice(("", "2 years")))
        last = (rng.choice((weight, f"{weight} kg")), rng.choice(PLACES), rng.choice((None, "red")))
        return dict(zip(_KEYS, (*own, *more, *last), strict=True))

    rows = filled(asset, chars, str)
    missing = sorted(rng.sample(_KEYS, rng.randint(2, 4)))
    for key in missing:
        for place in rng.sample(range(12, len(rows)), 2):
            rows[place].pop(key, None)
    prompt = "Which keys are missing in at least one of the records? A key whose value is None or empty is not missing."
    return Made(prompt, rows, Names(tuple(missing), any_of(_KEYS)))


def _access_log(hits: Sequence[Mapping[str, Any]]) -> str:
    return "".join(_HIT.format_map({**hit, "bytes": hit["bytes"] or "-"}) for hit in hits)


@kind("access-log", "access log", seen=True)
def access_log(rng: Random, chars: int) -> Made:
    """Find who was sent the most, not who came most often or tops what is not asked for."""
    clients = [f"203.0.113.{number}" for number in rng.sample(range(1, 255), 9)]
    largest = {(clients[1], 200): 90_000, (clients[2], 206): 900_000}

    def hit(index: int) -> dict[str, Any]:
        client = rng.choices(clients, (7, 4, 4, *[2] * 6))[0]
        status = rng.choices((200, 206, 304, 404, 408), (60, 15, 10, 10, 5))[0]
        request = "-" if status == 408 else f"{rng.choice(('GET', 'POST'))} {rng.choice(_PATHS)} HTTP/1.1"
        most = 0 if status in {304, 408} else largest.get((client, status), 24_000)
        own = {"client": client, "at": _START + timedelta(seconds=20 * index + rng.randrange(20)), "request": request}
        more = {"referrer": rng.choice(("-", "https://example.org/a b")), "agent": rng.choice(_AGENTS)}
        return {**own, "status": status, "bytes": rng.randint(most // 5, most), **more}

    hits = filled(hit, chars, _access_log)
    best = _top([one for one in hits if one["status"] == 200], "client", "bytes")
    prompt = "Which client address was sent the most bytes in total in answers with the status 200?"
    return Made(prompt, _access_log(hits), Names((best,), r"\b(?:\d{1,3}\.){3}\d{1,3}\b"))


def _failure(rng: Random, errors: Sequence[str]) -> str:
    parts = []
    for error in errors:
        file = f'  File "/srv/{rng.choice(PRODUCTS)}.py", line {rng.randint(5, 400)}, in run\n'
        parts.append(f"Traceback (most recent call last):\n{file}{error}: {rng.choice(PLACES)}\n")
    return "ERROR job failed\n" + _DURING.join(parts)


@kind("log-tracebacks", "application log", seen=False)
def log_tracebacks(rng: Random, chars: int) -> Made:
    """Find what ends most tracebacks of a thread, where others are named more often."""
    threads = [f"worker-{number}" for number in rng.sample(range(1, 30), 3)]
    often = {thread: rng.sample((6, 3, 1, 1, 1, 1), 6) for thread in threads}
    first = _ERRORS[often[threads[0]].index(3)]
    ends, entries, clock = Counter[str](), list[str](), _START
    while chars > 0:
        clock += timedelta(seconds=rng.randint(1, 90))
        thread, error = rng.choice(threads), rng.choice(_ERRORS)
        said = rng.choice(("INFO job done", "INFO job taken up", f"WARN went on after {error}: {rng.choice(PLACES)}"))
        if rng.random() < 0.4:
            last = rng.choices(_ERRORS, often[thread])[0]
            ends[last] += thread == threads[0]
            said = _failure(rng, (first, last) if rng.random() < 0.5 else (last,)).rstrip()
        entries.append(f"{clock},{rng.randint(100, 999)} [{thread}] {said}\n")
        chars -= len(entries[-1])
    best = max(_ERRORS, key=lambda error: ends[error])
    entries.append(f"{clock + timedelta(minutes=1)},417 [{threads[0]}] {_failure(rng, (best,))}")
    prompt = f"With which exception do the log entries of failed jobs of the thread {threads[0]} end most often?"
    return Made(prompt, "".join(entries), one_of(best, _ERRORS))


@kind("key-value-units", "key=value log", seen=False)
def key_value_units(rng: Random, chars: int) -> Made:
    """Find the longest of durations in two units."""
    count = max(40, chars // 118)
    numbers = [f"r-{number:06x}" for number in rng.sample(range(16**6), count)]
    ops = rng.sample(("upload", "resize", "export", "index", "merge"), 5)
    last, other = rng.sample(range(count), 2)
    special = {last: (ops[0], rng.randint(41_000, 48_000)), other: (ops[1], rng.randint(50_000, 60_000))}
    lines, clock = [], _START
    for index, number in enumerate(numbers):
        clock += timedelta(seconds=rng.randint(1, 60))
        op, ms = special.get(index) or (rng.choice(ops), rng.randint(5, 40_000))
        took = f"{ms}ms" if index not in special and rng.random() < 0.6 else f"{ms / 1000:g}s"
        said = rng.choice(("done", "ok, as before", f"limit is dur={rng.randint(60_000, 99_000)}ms", 'said \\"late\\"'))
        own = f'level=info req={number} op={op} user="{rng.choice(PEOPLE)}" msg="{said}" dur={took}'
        lines.append(f"ts={clock.isoformat()}Z {own}\n")
    prompt = f"Which request (req) of op={ops[0]} has the longest dur, in ms or s? A quoted msg tells of others."
    return Made(prompt, "".join(lines), Names((numbers[last],), r"\br-[0-9a-f]{6}\b"))


def _section(rng: Random, name: str, *, tls: bool) -> str:
    said = rng.choice(("yes", "on", "true", "1") if tls else ("no", "off", "false", "0"))
    lines = [rng.choice((f"tls = {said}", f"tls={said}", f"TLS = {said.title()}"))]
    if tls:
        lines += rng.choice(([], ["; tls = off"], ["#tls = no"]))
        lines[0] = rng.choice((lines[0], f"{lines[0]} ; was off before", "# tls = off"))
    lines += [f"owner = {rng.choice(PEOPLE)}", f"port = {rng.randint(1024, 65_000)}", f"log_tls = {rng.choice('01')}"]
    rng.shuffle(lines)
    return f"[{name}]\n" + "\n".join(lines) + "\n\n"


@kind("ini-switched-off", "configuration", seen=False)
def ini_switched_off(rng: Random, chars: int) -> Made:
    """Name the sections with a setting, comments aside."""
    what = ("relay", "mailer", "billing", "search", "thumbs", "ledger")
    names = [f"{rng.choice(what)}-{number}" for number in rng.sample(range(100, 100_000), max(40, chars // 86))]
    off = set(rng.sample(names, rng.randint(2, 4)))
    prompt = "Which sections set tls (in whatever case) to no, off, false or 0? What follows a ; or a # is a comment."
    text = "".join(_section(rng, name, tls=name not in off) for name in names)
    return Made(prompt, text, Names(tuple(sorted(off)), r"\b[a-z]+-\d+\b"))


@kind("frame-missing", "data frame", seen=False)
def frame_missing(rng: Random, chars: int) -> Made:
    """Count the rows of a group in which one value is there and another one is not."""
    sites, gaps = rng.sample(PLACES, 5), rng.uniform(0.2, 0.5)

    def bird(index: int) -> dict[str, object]:
        row = {"ring": 20_000 + index, "site": rng.choice(sites), "grams": round(rng.gauss(30, 5), 1)}
        row |= {"wing_mm": rng.randint(60, 90), "finder": rng.choice(PEOPLE)}
        return {key: "" if key != "ring" and rng.random() < gaps else value for key, value in row.items()}

    rows = filled(bird, chars, as_csv)
    right = sum(row["site"] == sites[0] and row["grams"] != "" and row["wing_mm"] == "" for row in rows)
    prompt = f"In how many rows with the site {sites[0]} is there a value for grams but none for wing_mm?"
    return Made(prompt, as_csv(rows), Number(right), "frame")
