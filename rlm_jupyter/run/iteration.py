"""What is in a reply, and what follows from it.

Only cells end a run: FINAL in a cell, a FINAL in prose that is made into one, or the `answer` dict set
ready by a literal in a cell's source. Nothing that is printed, no traceback, no sub-call's reply and no
part of `context` can, unless a policy reads outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlm_jupyter import parsing
from rlm_jupyter.prompts import notices
from rlm_jupyter.run import cells, undo
from rlm_jupyter.run.control import Decision
from rlm_jupyter.run.grounding import ends_an_output, is_question
from rlm_jupyter.run.state import Run
from rlm_jupyter.types.events import RemarkMade
from rlm_jupyter.types.values import CellRun, Inspection, Value


@dataclass(frozen=True, slots=True)
class IterationOutcome:
    """What came of carrying out a reply."""

    failed: bool
    """No cell ran, or one failed."""
    answer: Value | None = None
    denied: bool = False
    """A person did not let a cell run, which is no failure of the model's."""


async def carry_out(run: Run, reply: parsing.ParsedReply) -> IterationOutcome:
    """Execute a reply's cells, and see whether they, or its prose, answer the prompt."""
    if reply.unclosed:
        was_cut = run.trajectory.iterations[-1].reply.finish == "length"
        run.notice(notices.CUT_OFF if was_cut else notices.UNCLOSED)
    if reply.blocks:
        return await _blocks(run, reply)
    declared = reply.declared
    if declared is None:
        if not reply.unclosed:
            type_name = run.trajectory.started.context.type_name
            run.notice(notices.GO_ON if run.has_looked else notices.look_first(type_name))
        return IterationOutcome(failed=True)
    return await _declaration(run, declared)


async def _blocks(run: Run, reply: parsing.ParsedReply) -> IterationOutcome:
    if _question_blind_answer(run, all(parsing.only_constant_final(block) for block in reply.blocks)):
        for block in reply.blocks:
            cells.finish(run, block, None, CellRun("skipped"))
            run.replies.unconfirmed = run.replies.unconfirmed or parsing.constant_final(block)
        return IterationOutcome(failed=True)
    blocks, has_run = list(reply.blocks), False
    while blocks:
        block = blocks.pop(0)
        if has_run and parsing.only_constant_final(block) and not _is_confirmed(run, parsing.constant_final(block)):
            cells.finish(run, block, None, CellRun("skipped"))
            continue
        ran = await _cell(run, block)
        has_run = True
        if ran.ends_reply:
            for skipped in blocks:
                cells.finish(run, skipped, None, CellRun("skipped"))
            return ran.outcome
    declared = reply.declared
    if declared is None:
        return IterationOutcome(failed=False)
    typed = _typed_content(run, declared)
    if typed is None or _is_confirmed(run, typed):
        return await _declared_cell(run, declared)
    return IterationOutcome(failed=False)


def _is_confirmed(run: Run, answer: str | None) -> bool:
    """Return whether a typed answer counts that came with code; else ask the model to look at the outputs."""
    if answer is None or answer == run.replies.unconfirmed or run.iteration >= run.limits.max_iterations:
        return True
    run.replies.unconfirmed = answer
    run.notice(notices.UNSEEN)
    return False


def _is_unread(source: str, cell: CellRun, answer: Value) -> bool:
    """Return whether a cell has shown something, and has answered with a literal that was typed before it did."""
    if cell.status != "ok" or not cell.outputs:
        return False
    return parsing.types_final(source) and parsing.constant_final(source) == answer.text


async def _declaration(run: Run, declared: parsing.Declaration) -> IterationOutcome:
    """Execute the FINAL of a reply that is prose only, as a cell."""
    typed = _typed_content(run, declared)
    if typed is not None and _question_blind_answer(run, answers_only=True):
        run.replies.unconfirmed = typed
        return IterationOutcome(failed=True)
    return await _declared_cell(run, declared)


def _typed_content(run: Run, declared: parsing.Declaration) -> str | None:
    """Return the text of a FINAL in prose; `None` where it names a variable, or there is none."""
    if declared.kind != "FINAL" or any(declared.content == variable.name for variable in run.cell_state.variables):
        return None
    content = parsing.unquoted(declared.content)
    return content if content.strip() else None


async def _declared_cell(run: Run, declared: parsing.Declaration) -> IterationOutcome:
    names = {variable.name for variable in run.cell_state.variables}
    return (await _cell(run, parsing.literal_cell(declared, names))).outcome


def _question_blind_answer(run: Run, answers_only: bool) -> bool:
    """Question an answer that was typed before anything was looked at, once; return whether it was questioned."""
    if not answers_only or run.replies.blind_questioned or run.has_seen:
        return False
    run.replies.blind_questioned = True
    run.notice(notices.blind(run.trajectory.started.context.type_name, has_run=run.has_looked))
    return True


def _question_echo(run: Run, answer: Value) -> bool:
    """Question an answer that is the question itself, once; return whether it was questioned."""
    if run.replies.echo_questioned or not is_question(answer.text, run.trajectory.started.prompt):
        return False
    run.replies.echo_questioned = True
    run.notice(notices.ECHO)
    return True


@dataclass(frozen=True, slots=True)
class _Ran:
    """What came of one block."""

    ok: bool
    answer: Value | None = None
    exited: bool = False
    denied: bool = False

    @property
    def ends_reply(self) -> bool:
        """Whether the blocks after it are not executed."""
        return self.exited or not self.ok or self.answer is not None

    @property
    def outcome(self) -> IterationOutcome:
        return IterationOutcome(failed=not self.ok, answer=self.answer, denied=self.denied)


async def _cell(run: Run, source: str) -> _Ran:
    """Execute one block."""
    executed, ran = mended(run, source), source
    decision = await run.approval(source)
    while decision.undoes and not run.is_replaying and (problem := await undo.go_back(run)):
        run.emit(RemarkMade(problem))
        decision = await run.approval(source)
    if not decision.runs:
        return _refused(run, source, decision)
    if decision.source is not None and decision.source != source:
        executed = ran = decision.source
        run.notice(notices.EDITED.format(source=ran) if ran.strip() else notices.EMPTIED, "edited")
    cell, inspection = await cells.execute(run, source, executed)
    ok, exited = cell.status == "ok", inspection.exited
    # most cells run as they are, and are not read again; one that did what it was to do needs no word about it
    is_as_written = executed is not None and ran == source
    names = parsing.shadowed_names(source, has_context=run.has_context) if is_as_written else ()
    if names and not (ok and cell.outputs):
        run.notice(notices.SHADOWING.format(names=" and ".join(f"`{name}`" for name in names)))
    run.replies.ready_declared = inspection.draft_ready and (run.replies.ready_declared or parsing.declares_ready(ran))
    _tell(run, ran, cell, inspection)
    if inspection.answer_state == "declared":
        answer = await _declared(run, ran, cell)
        return _Ran(ok, answer, exited=exited and answer is None)
    if inspection.draft_ready and not run.replies.ready_declared and not run.replies.ready_asked:
        run.replies.ready_asked = True
        run.notice(notices.NOT_READY)
    if run.replies.ready_declared:
        if not inspection.draft:
            run.notice(notices.READY_EMPTY)
            return _Ran(ok, exited=exited)
        if run.cell_state.draft is not None:
            return _Ran(ok, run.cell_state.draft)
        run.notice(notices.READY_UNREADABLE)
    return _Ran(ok, exited=exited)


async def _declared(run: Run, source: str, cell: CellRun) -> Value | None:
    """Return the answer that a cell has declared; `None`: it is questioned, and the next one counts again."""
    answer = await run.kernel.get()
    if _question_echo(run, answer):
        await cells.reopen(run)
        return None
    if _is_unread(source, cell, answer) and not _is_confirmed(run, answer.text):
        await cells.send_back(run, answer)
        return None
    return answer


def _refused(run: Run, source: str, decision: Decision) -> _Ran:
    """Pass over a block that a person did not let run; the one before may have been undone, too."""
    cells.finish(run, source, None, CellRun("skipped"))
    said = f" Their message: {decision.note}" if decision.note else ""
    if decision.undoes:
        undo.tell(run, said)
    else:
        run.notice(notices.REFUSED.format(message=said), "refused")
    return _Ran(ok=False, denied=True)


def mended(run: Run, source: str) -> str | None:
    """Return what is executed in place of a cell that would not do what it says; `None`: the cell as it is."""
    return parsing.mend_cell(source, has_context=run.has_context) or _with_quotes(run, source)


def _with_quotes(run: Run, source: str) -> str | None:
    """Return a cell of `FINAL(Oslo)` as `FINAL('Oslo')`, where there is no such variable and an output ends with it."""
    bare = parsing.bare_final(source)
    if bare is None or bare[1] & {variable.name for variable in run.cell_state.variables}:
        return None
    return f"FINAL({bare[0]!r})" if ends_an_output(bare[0], run.trajectory) else None


def _tell(run: Run, source: str, cell: CellRun, inspection: Inspection) -> None:
    """Pass on what the kernel wants the model to know."""
    if inspection.restored:
        names = ", ".join(inspection.restored)
        run.notice(notices.RESTORED_NAMES.format(names=names))
    for notice in inspection.notices:
        run.notice(notice)
    refusal, cut, repeated, unseen = run.subcalls.take()
    if refusal:
        run.notice(notices.BATCH_REFUSED.format(reason=refusal))
    if cut:
        run.notice(notices.CUT_SUBCALLS.format(most=run.limits.max_output_tokens, count=cut))
    if repeated:
        run.notice(notices.REPEATED_SUBCALLS.format(count=repeated))
    if unseen:
        run.notice(notices.UNSEEN_IMAGES.format(model=unseen))
    if inspection.exited and inspection.answer_state != "declared":
        run.notice(notices.EXITED, "exited")
    if inspection.problem and cell.status == "ok":
        run.notice(notices.NO_ANSWER_YET.format(problem=inspection.problem))
    if cell.status == "interrupted":
        is_stopped = run.playback is not None and run.playback.was_stopped_in(run.iteration, run.cell_state.block - 1)
        if is_stopped:
            run.notice(notices.STOPPED, "stopped")
        else:
            run.notice(notices.INTERRUPTED)
    failed_name = any(output.get("ename") == "NameError" for output in cell.outputs)
    if failed_name and "FINAL" in source:
        names = ", ".join(variable.name for variable in inspection.variables) or "none yet"
        quoted = "" if (bare := parsing.bare_final(source)) is None else notices.QUOTED.format(text=bare[0])
        run.notice(quoted + notices.VARIABLES.format(names=names))
