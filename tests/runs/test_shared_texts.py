"""Runs over a large text: children, samples, sessions, and what is recorded of them, with one copy for all kernels."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from rlm_jupyter import RLM, Limits, Result
from rlm_jupyter.kernel import shared_texts
from rlm_jupyter.kernel import templates as templates_module
from rlm_jupyter.kernel.connection import Connection
from rlm_jupyter.kernel.contexts import Contexts
from rlm_jupyter.kernel.kernel import Kernel
from rlm_jupyter.models.scripted import ScriptedModel
from rlm_jupyter.prompts.description import describe
from rlm_jupyter.record.blobs import digest
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.context import Context
from rlm_jupyter.types.values import PackedContext, PacksContext
from tests.runs.test_resume import Counting, block, cut
from tests.runs.test_resume import in_folder as in_folder

pytestmark = pytest.mark.skipif(not templates_module.are_possible(), reason="kernels are forked on Linux")

TEXT = "".join(f"line {number:,}: é\n" for number in range(50_000))
PART = digest((TEXT[:500_000].encode(),))
ASK = "print(rlm_query_batched([context, context, context[:500_000]]))"
ROOT = [block(ASK), block("FINAL('done')")]
CHILD = [block("print(len(context))"), block("FINAL(len(context))")]
TWO = Limits(max_depth=2)


@pytest.fixture(autouse=True)
def held(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A low threshold; for each context that a kernel was given, its digest where it shares that, else nothing."""
    monkeypatch.setattr(shared_texts, "LARGE_TEXT", 300_000)
    share, found = Contexts._share, list[str]()

    async def shared(self: Contexts, connection: Connection, context: PacksContext, name: str) -> bool:
        is_shared = await share(self, connection, context, name)
        found.append(digest(context.buffers) if is_shared else "")
        return is_shared

    monkeypatch.setattr(Contexts, "_share", shared)
    return found


async def asked() -> Result:
    return await RLM(Counting(ROOT), sub_model=Counting(CHILD), limits=TWO).acompletion("What?", TEXT)


@pytest.mark.usefixtures("in_folder")
async def test_children_that_are_handed_the_text_share_it_and_are_recorded_as_ever(held: list[str]) -> None:
    result = await asked()
    assert result.answer == "done", result.message
    [cell] = result.trajectory.iterations[0].cells
    sizes = [len(TEXT), len(TEXT), 500_000]
    assert cell.outputs[0]["text"] == f"{[str(size) for size in sizes]}\n"
    whole = result.trajectory.started.context.sha256
    assert sorted(held) == sorted([PART, whole, whole, whole])
    calls = sorted(result.trajectory.subcalls, key=lambda call: call.ordinal)  # they settle in any order
    assert [(call.prompt_sha256 == whole, call.prompt_chars) for call in calls] == [
        (size == len(TEXT), size) for size in sizes
    ]
    assert result.path is not None
    folder = result.path.with_suffix(".rlm")
    children = {run.run_id: run for run in map(Trajectory.load, folder.glob("children/*.ipynb"))}
    assert [children[str(call.child)].started.context.sha256 for call in calls] == [
        call.prompt_sha256 for call in calls
    ]
    stored = {path.name: path.stat().st_size for path in (folder / "objects").iterdir()}
    assert stored[whole] == len(TEXT.encode())
    held.clear()
    again = await RLM.areplay(result.path)
    assert again.same, again.differences
    assert held == [whole]


async def test_a_run_that_is_resumed_shares_it_too(in_folder: Path, held: list[str]) -> None:
    result = await asked()
    whole = result.trajectory.started.context.sha256
    path = cut(result, 2, name="broken")
    for child in path.with_suffix(".rlm").glob("children/*.rlm"):
        journal = child / "journal.jsonl"
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:4]))
        child.with_suffix(".ipynb").unlink()
    held.clear()
    again = await RLM.aresume(path, model=Counting(ROOT), sub_model=Counting(CHILD))
    assert again.answer == "done"
    assert again.trajectory.iterations[0].shown == result.trajectory.iterations[0].shown
    assert sorted(held) == sorted([PART, whole, whole, whole])
    assert {call.child for call in again.trajectory.subcalls} == {call.child for call in result.trajectory.subcalls}


@pytest.mark.parametrize("insurance", [False, True])
def test_a_kernel_that_dies_goes_on_with_it(held: list[str], insurance: bool) -> None:
    cells = [block("import os; kept = 1; os._exit(1)"), block("FINAL([len(context), rlm_query(context)])")]
    child = ScriptedModel([block("FINAL(len(context))")])
    result = RLM(
        ScriptedModel(cells), sub_model=child, limits=TWO, insurance=insurance, save=False, sandbox="none"
    ).completion("?", TEXT)
    assert result.value == [len(TEXT), str(len(TEXT))], result.message
    # with insurance, the root's second kernel is the fork of its first
    assert len(held) == (2 if insurance else 3)
    assert all(held)


def test_a_context_that_is_added_is_shared_by_those_that_it_is_handed_to(held: list[str]) -> None:
    more = TEXT[::-1]
    cells = [
        block("FINAL(rlm_query(context))"),
        block("FINAL(rlm_query_batched([context_0, context_1, context_1]) + [context == context_1])"),
    ]
    child = ScriptedModel([block("FINAL(context[:7])")] * 4)
    with RLM(ScriptedModel(cells), sub_model=child, limits=TWO, save=False).session(TEXT) as session:
        assert session.ask("?").answer == TEXT[:7]
        session.add_context(more)
        assert session.ask("??").value == [TEXT[:7], more[:7], more[:7], True]
    assert len(held) == 6  # the root's two, and four children's
    assert all(held)
    assert len(set(held)) == 2


def test_samples_share_it(held: list[str]) -> None:
    model = ScriptedModel([block("FINAL(len(context))")] * 3)
    result = RLM(model, samples=3, limits=Limits(max_iterations=3), save=False).completion("?", TEXT)
    assert result.value == len(TEXT)
    assert len(set(held)) == 1
    assert all(held)


@pytest.mark.parametrize("warm", [True, False])
async def test_a_kernel_reads_a_large_text_while_it_is_described_and_before_it_is_stored(
    warm: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened = list[str]()
    has_it = threading.Event()
    set_context, store = Kernel.set_context, RunFiles.store_context

    async def given(self: Kernel, context: Context) -> None:
        await set_context(self, context)
        happened.append("given")
        has_it.set()

    def described(text: object) -> Any:
        assert has_it.wait(30)
        happened.append("described")
        return describe(text)

    async def stored(self: RunFiles, packed: PackedContext) -> None:
        happened.append("stored")
        await store(self, packed)

    monkeypatch.setattr(Kernel, "set_context", given)
    monkeypatch.setattr("rlm_jupyter.run.context.describe", described)
    monkeypatch.setattr(RunFiles, "store_context", stored)
    monkeypatch.setattr("rlm_jupyter.run.context._LARGE", 300_000)
    rlm = RLM(ScriptedModel([block("FINAL(len(context))")]), save=tmp_path, warm=warm, sandbox="none")
    result = await rlm.acompletion("How long?", TEXT)
    assert result.value == len(TEXT), result.message
    assert happened == ["given", "described", "stored"]
    assert f"{len(TEXT):,} characters" in result.trajectory.started.context.size
    assert result.path is not None
    assert SavedRun.load(result.path).context().text() == TEXT


async def test_a_question_that_is_cancelled_while_its_text_is_described_leaves_the_text_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_go_on = threading.Event()
    monkeypatch.setattr("rlm_jupyter.run.context.describe", lambda text: (may_go_on.wait(30), describe(text))[1])
    monkeypatch.setattr("rlm_jupyter.run.context._LARGE", 300_000)
    context = Context(TEXT)
    waiting = asyncio.create_task(context.described())
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    may_go_on.set()
    assert context.info.size == f"{len(TEXT):,} characters"


def test_kernels_that_are_started_anew_share_it_and_a_small_one_is_sent(held: list[str]) -> None:
    for warm, text in ((False, TEXT), (True, "short")):
        held.clear()
        child = ScriptedModel([block("FINAL(len(context))")])
        model = ScriptedModel([block("FINAL(rlm_query(context))")])
        result = RLM(model, sub_model=child, limits=TWO, save=False, warm=warm).completion("?", text)
        assert result.answer == str(len(text)), result.message
        assert [bool(each) for each in held] == [text == TEXT] * 2
