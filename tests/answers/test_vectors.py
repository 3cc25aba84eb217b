"""The vectors of `vectors` and `vectors_replies`, each of them."""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Mapping
from types import SimpleNamespace

import pytest

from rlm_jupyter.parsing import declared_in_prose, find_final_answer, literal_cell, mend_prose_final, parse, unquoted
from tests.answers.conftest import Stage
from tests.answers.vectors import PEERS, TEXTS, Vector
from tests.answers.vectors_replies import READINGS, Reading
from tests.support.pace import Pace

LOOK = "```repl\nx = 'value'; len(context)\n```"
GO_ON = "```repl\nFINAL('it went ' + 'on')\n```"


class Environment:
    """Runs code for real, as Python does."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = dict(variables)
        self.ran: list[str] = []

    def execute_code(self, code: str) -> SimpleNamespace:
        self.ran.append(code)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                exec(code, dict(self.variables))
            except NameError as error:
                return SimpleNamespace(stdout=printed.getvalue(), stderr=str(error))
        return SimpleNamespace(stdout=printed.getvalue(), stderr="")


@pytest.mark.parametrize("vector", TEXTS, ids=lambda vector: vector.id)
def test_find_final_answer(vector: Vector) -> None:
    environment = None if vector.variables is None else Environment(vector.variables)
    assert find_final_answer(vector.text, environment) == vector.ours
    if environment is not None:
        assert len(environment.ran) <= 1


@pytest.mark.parametrize("vector", [v for v in TEXTS if v.variables], ids=lambda vector: vector.id)
def test_no_variable_without_an_environment(vector: Vector) -> None:
    declaration = declared_in_prose(vector.text)
    assert find_final_answer(vector.text) == (None if declaration is None or "VAR" in declaration.kind else vector.ours)


@pytest.mark.parametrize("vector", TEXTS, ids=lambda vector: vector.id)
def test_the_cell_that_is_made_of_it_is_python(vector: Vector) -> None:
    declaration = declared_in_prose(vector.text)
    if declaration is None or not declaration.content:
        return
    called: list[tuple[str, object]] = []
    names = {
        "FINAL": lambda value: called.append(("FINAL", value)),
        "FINAL_VAR": lambda value: called.append(("FINAL_VAR", value)),
        "f": str.upper,
    }
    exec(literal_cell(declaration), {**(vector.variables or {"x": "1", "y": "2"}), **names})
    [(kind, value)] = called
    assert kind == declaration.kind
    if kind == "FINAL":
        assert value == unquoted(declaration.content)


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.id)
def test_the_blocks_of_a_reply(reading: Reading) -> None:
    parsed = parse(reading.reply)
    assert tuple(mend_prose_final(block) or block for block in parsed.blocks) == reading.blocks
    pieces = "".join(segment.prefix + segment.text + segment.suffix for segment in parsed.segments)
    assert pieces + reading.reply[parsed.read :] == reading.reply


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.id)
def test_the_answer_of_a_run(stage: Stage, reading: Reading) -> None:
    played = stage.play([LOOK, reading.reply, GO_ON])
    assert played.stop_reason == "answered"
    assert played.answer == ("it went on" if reading.ours is None else reading.ours)
    if reading.ours is None:
        assert reading.says in played.told
    else:
        assert len(played.iterations) == 2


@pytest.mark.parametrize("reading", [r for r in READINGS if r.blocks], ids=lambda reading: reading.id)
def test_with_carriage_returns_it_is_the_same_reply(reading: Reading) -> None:
    parsed = parse(reading.reply.replace("\r\n", "\n").replace("\n", "\r\n"))
    assert tuple(mend_prose_final(block) or block for block in parsed.blocks) == reading.blocks


def test_the_tables_are_in_order() -> None:
    ids = [vector.id for vector in TEXTS]
    assert len(set(ids)) == len(ids)
    ids = [reading.id for reading in READINGS]
    assert len(set(ids)) == len(ids)
    compared = [(entry.ours, entry.peers) for entry in TEXTS] + [(entry.ours, entry.peers) for entry in READINGS]
    assert set().union(*(peers for _, peers in compared)) <= PEERS
    # where the table compares, it shows differences
    assert sum(any(answer != ours for answer in peers.values()) for ours, peers in compared) > 25


@pytest.mark.parametrize(
    "text",
    [
        "FINAL(“\n" * 32_000,
        "FINAL(“\n" * 30_000 + "”" + ")" * 10,
        "FINAL(«“\n" * 25_000 + "»",
        "FINAL(" + "[" * 250_000,
        "FINAL([\n" * 30_000,
        "FINAL('a'a'a\n" * 20_000 + "'",
        "FINAL({'it's\n" * 20_000,
        "FINAL_VAR(\n" * 25_000,
    ],
    ids=lambda text: repr(text[:16]),
)
def test_a_long_text_is_read_at_once(text: str) -> None:
    for read in (parse, find_final_answer, mend_prose_final):
        pace = Pace(time.process_time)
        read(text)
        assert pace.within(1.5), read
