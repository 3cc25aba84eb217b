"""How a run ends: every row of the table, and every way to answer with every fate of its cell."""

from __future__ import annotations

import pytest

from rlm_jupyter.prompts.cues import NUDGE_IN_VAIN
from rlm_jupyter.types.values import Reply
from tests.answers.conftest import Played, Stage
from tests.answers.fates import DIE, FATES, KILLED, SLEEP, WAYS, Fate, Way
from tests.answers.table import GO_ON, LOOK, NEXT, TABLE, Row, block, fence

ROWS = [pytest.param(row, id=f"{reply}: {row.id}") for reply, rows in TABLE.items() for row in rows]


def one_in_three(number: int) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of a combination: of three neighbours, two are run by hand."""
    return (pytest.mark.soak,) if number % 3 else ()


COSTLY = [fate for fate in FATES if fate.before and fate.status in {"interrupted", "died"}]
"""Whatever the way, its lines are not reached: some of the ways will do."""
CROSSED = [
    pytest.param(way, fate, id=f"{way.id}, cell {fate.id}", marks=one_in_three(place + fated))
    for place, way in enumerate(WAYS)
    for fated, fate in enumerate((*FATES, *(KILLED if place % 7 == 0 else ())))
    if fate not in COSTLY or place % 3 == 0
]
"""Each way meets a third of the fates, and each fate a third of the ways; the others under `soak`."""
AFTER = (DIE, SLEEP, "1/0", "FINAL('later')")
NOT_OK = [fate for fate in (*FATES, *KILLED) if fate.before]


def answered(played: Played, answer: str, iterations: int) -> None:
    """The run ended by itself, there and with this, and nobody was asked more than that."""
    assert (played.answer, played.stop_reason) == (answer, "answered")
    assert (len(played.iterations), len(played.requests)) == (iterations, iterations)


@pytest.mark.parametrize("row", ROWS)
def test_what_is_in_a_reply_and_what_follows(stage: Stage, row: Row) -> None:
    played = stage.play([*row.before, *row.replies, GO_ON], sub=str, **row.limits)
    said = len(row.before) + len(row.replies)
    if row.answer is not None:
        answered(played, row.answer, said)
    else:
        answered(played, NEXT, said + 1)
    for text in row.told:
        assert text in played.told
    notices = played.iterations[said - 1].notices
    assert len(set(notices)) == len(notices)
    if row.cells is not None:
        assert played.statuses(said - 1) == row.cells


@pytest.mark.parametrize(("way", "fate"), CROSSED)
def test_an_answer_counts_from_when_it_was_given(stage: Stage, way: Way, fate: Fate) -> None:
    played = stage.play([LOOK, block(fate.source(way)), GO_ON], sub=str, cell_seconds=fate.cell_seconds)
    assert played.statuses(1) == (fate.status,)
    if fate.counts(way):
        answered(played, way.answer, 2)
    else:
        answered(played, NEXT, 3)
        assert fate.told in played.told


@pytest.mark.parametrize("tag", ["python", "py", "REPL"])
@pytest.mark.parametrize("fate", FATES[:7], ids=lambda fate: f"cell {fate.id}")
def test_the_tag_of_a_block_changes_nothing(stage: Stage, tag: str, fate: Fate) -> None:
    way = WAYS[2]
    played = stage.play([LOOK, block(fate.source(way), tag=tag), GO_ON], cell_seconds=fate.cell_seconds)
    assert played.statuses(1) == (fate.status,)
    answered(played, *((way.answer, 2) if fate.counts(way) else (NEXT, 3)))


@pytest.mark.parametrize("fate", NOT_OK, ids=lambda fate: fate.id.removesuffix(" before"))
def test_blocks_after_one_that_did_not_succeed_are_not_run(stage: Stage, fate: Fate) -> None:
    reply = fence(fate.before) + "\nThen:\n" + fence("FINAL(len(context))")
    played = stage.play([LOOK, reply, GO_ON], cell_seconds=fate.cell_seconds)
    assert played.statuses(1) == (fate.status, "skipped")
    answered(played, NEXT, 3)
    assert fate.told in played.told
    assert "1 more block was not executed" in played.told


@pytest.mark.parametrize(
    ("way", "after"),
    [
        pytest.param(way, after, id=f"{way.id}-{after}", marks=one_in_three(place + number))
        for place, way in enumerate(WAYS)
        for number, after in enumerate(AFTER)
    ],
)
def test_blocks_after_the_answer_are_not_run(stage: Stage, way: Way, after: str) -> None:
    source = "\n".join(line for line in (way.first, way.lines) if line)
    played = stage.play([LOOK, fence(source) + "\n" + fence(after), GO_ON], sub=str, cell_seconds=1.0)
    assert played.statuses(1) == ("ok", "skipped")
    answered(played, way.answer, 2)


@pytest.mark.parametrize("prose", ["FINAL_VAR(x)", "FINAL(x)", "FINAL(a guess)"])
@pytest.mark.parametrize("fate", NOT_OK, ids=lambda fate: fate.id.removesuffix(" before"))
def test_an_answer_in_prose_does_not_count_when_a_block_did_not_succeed(stage: Stage, fate: Fate, prose: str) -> None:
    reply = fence("x = 'half done'", fate.before) + f"\n{prose}"
    played = stage.play([LOOK, reply, GO_ON], cell_seconds=fate.cell_seconds)
    assert played.statuses(1) == (fate.status,)
    answered(played, NEXT, 3)
    assert fate.told in played.told


@pytest.mark.parametrize("fate", [FATES[0], *NOT_OK], ids=lambda fate: fate.id.removesuffix(" before"))
def test_an_expression_in_prose_is_a_cell_like_any(stage: Stage, fate: Fate) -> None:
    define = block("def made():", *(f"    {line}" for line in fate.before.splitlines()), "    return 'made'")
    played = stage.play([define, "FINAL_VAR(made())", GO_ON], cell_seconds=fate.cell_seconds)
    assert played.statuses(1) == (fate.status,)
    answered(played, *(("made", 2) if fate.status == "ok" else (NEXT, 3)))


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: f"cell {fate.id}")
def test_a_helper_of_an_earlier_cell_answers_like_any(stage: Stage, fate: Fate) -> None:
    helper = block("def done(x):", *(f"    {line}" for line in (fate.before, "FINAL(x)", fate.after) if line))
    played = stage.play([helper, block("done(context[:4])"), GO_ON], cell_seconds=fate.cell_seconds)
    assert played.statuses(1) == (fate.status,)
    answered(played, *((NEXT, 3) if fate.before else ("some", 2)))


@pytest.mark.parametrize("leave", ["exit()", "quit()", "import os; os.kill(os.getpid(), 15)", "import os; os.abort()"])
def test_an_answer_outlives_other_ways_to_leave(stage: Stage, leave: str) -> None:
    played = stage.play([LOOK, block("FINAL(context[:4])", leave), GO_ON])
    stage.close()  # a kernel that is told to leave does so a moment later, and not in the next test
    answered(played, "some", 2)


def test_history_is_there_from_the_first_prompt_on(stage: Stage) -> None:
    played = stage.play([LOOK, block("print(history)"), GO_ON])
    assert "Outputs:\n[]\n" in played.told
    answered(played, NEXT, 3)


@pytest.mark.slow
def test_an_answer_outlives_a_cell_that_hears_no_interrupt(stage: Stage) -> None:
    deaf = "import time\nwhile True:\n    try: time.sleep(5)\n    except BaseException: pass"
    played = stage.play([LOOK, block("FINAL(context[:4])", deaf), GO_ON], cell_seconds=1.0)
    answered(played, "some", 2)


def test_a_large_answer_outlives_the_kernel_whole(stage: Stage) -> None:
    played = stage.play([LOOK, block("FINAL('abcdefghij' * 1_000_000)", DIE), GO_ON])
    assert played.answer == "abcdefghij" * 1_000_000
    assert played.stop_reason == "answered"


def test_what_died_is_named_and_the_rest_is_back(stage: Stage) -> None:
    look = block("print(sorted(n for n in globals() if n == 'kept'), FINAL.__name__, len(context))")
    played = stage.play([block("kept = 1"), block(DIE), look, GO_ON])
    assert "your variables are gone: kept" in played.requests[2][-1].content
    assert "[] FINAL 9" in played.told


def test_a_second_death_forgets_no_first_answer(stage: Stage) -> None:
    played = stage.play([LOOK, block(DIE), block("FINAL('kept')", DIE), GO_ON])
    answered(played, "kept", 3)


def test_the_record_keeps_mended_source_as_written(stage: Stage) -> None:
    played = stage.play([LOOK, block("FINAL(the answer (with parens))")])
    (cell,) = played.iterations[-1].cells
    assert cell.source == "FINAL(the answer (with parens))"
    assert cell.executed == "FINAL('the answer (with parens)')"


def test_a_reply_that_was_cut_off_gives_the_next_more_room(stage: Stage) -> None:
    cut = Reply("```repl\nFINAL('cut", "scripted/relay", finish="length")
    played = stage.play([LOOK, cut, GO_ON], max_output_tokens=1_000)
    assert played.caps == (1_000, 1_000, 2_000)


@pytest.mark.parametrize("reply", ["Hm.", "FINAL(a guess", "```js\nFINAL('js')\n```", "**FINAL(42)** it is"])
def test_a_reply_with_nothing_to_run_counts_as_failing(stage: Stage, reply: str) -> None:
    played = stage.play([LOOK, reply, "What I know"], max_errors=1)
    assert (played.answer, played.stop_reason, len(played.iterations)) == ("What I know", "errors", 2)


def test_a_reply_that_repeats_one_that_changed_nothing_is_drawn_again(stage: Stage) -> None:
    played = stage.play([LOOK, block("1/0"), block("1/0"), block("1/0"), GO_ON])
    assert (played.answer, len(played.iterations), len(played.requests)) == (NEXT, 3, 5)
    # the model is told once, at the end of what it was shown; the replies themselves stay out
    before, *again = played.requests[2:]
    assert again[0] == again[1]
    assert again[0][:-1] == before[:-1]
    assert again[0][-1].content == f"{before[-1].content}\n\n{NUDGE_IN_VAIN}"
