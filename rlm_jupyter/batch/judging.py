"""`Judging`: the verdicts of a judge model on the answers of one batch, each asked for and paid once."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from rlm_jupyter.batch.items import Item
from rlm_jupyter.batch.journal import BatchJournal
from rlm_jupyter.batch.judge import Judgement, ReadyJudge
from rlm_jupyter.batch.row import ResultRow
from rlm_jupyter.batch.scoring import Scoring
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.types.values import Message, Usage


@dataclass(frozen=True, slots=True)
class JudgeBill:
    """What the judge of a batch has said and cost so far, earlier calls included."""

    verdicts: int
    """Rows with a score that it gave."""
    missing: int
    """Rows with an answer that it gave no score for."""
    tokens: int
    cost: float | None
    """US dollars; `None` where a price is not known."""

    def __str__(self) -> str:
        said = "1 verdict" if self.verdicts == 1 else f"{self.verdicts:,} verdicts"
        missing = f"{self.missing:,} answers without one" if self.missing > 1 else "1 answer without one"
        cost = f"${self.cost:.4f}" if self.cost else ""
        return "judge: " + ", ".join(
            filter(None, [said, missing if self.missing else "", f"{self.tokens:,} tokens", cost])
        )


class Judging:
    """The verdicts of one batch, under way.

    Parameters
    ----------
    judge
        Its model is loaded.
    scoring
        Says what is expected.
    journal
        Of the batch, which keeps the verdicts.
    whole
        The account of the batch, which pays for them.
    retries
        Ask again for those that failed in an earlier call.
    """

    def __init__(
        self, judge: ReadyJudge, scoring: Scoring, journal: BatchJournal, whole: Ledger, *, retries: bool
    ) -> None:
        self._judge, self._scoring, self._journal, self._whole = judge, scoring, journal, whole
        past = journal.past
        whole.carry_on(Usage(input_tokens=past.judge_tokens), past.judge_cost, 0, 0.0)
        self._again = {digest for digest, it in past.verdicts.items() if it.score is None} if retries else set()

    async def prepare(self) -> None:
        """See to it that the judge's own server is there.

        Raises
        ------
        ModelError
            It is not, or has no such model.
        """
        failed: Exception | None = None
        try:
            await self._judge.routing.prepare(lambda text: None, asyncio.Event(), self._whole.limits.max_seconds)
        except ExceptionGroup as group:
            failed = group.exceptions[0]
        if failed is not None:
            raise failed  # out here, so that the group is not its context

    def lease(self) -> AbstractAsyncContextManager[None]:
        """Hold the connections to the judge open."""
        return self._judge.routing.lease()

    def lacks(self, item: Item, row: ResultRow) -> bool:
        """Return whether the judge has to be asked about a row."""
        if row.error is not None:
            return False
        digest = self._digest(self._messages(item, row), item)
        return digest in self._again or not self._verdict(digest).reason

    async def judge(self, item: Item, row: ResultRow) -> Judgement:
        """Ask about a row, and write down the verdict.

        Raises
        ------
        LimitReached
            The batch's limits leave no room for it.
        """
        messages, bill, verdict = self._messages(item, row), Bill(), Judgement()
        digest = self._digest(messages, item)
        self._again.discard(digest)
        try:
            verdict = await self._judge.verdict(messages, self._whole, bill)
        finally:  # also what was stopped is billed
            if verdict.reason or bill.usage.total_tokens:
                verdict = replace(verdict, tokens=bill.usage.total_tokens, cost=bill.cost)
                self._journal.judge(digest, verdict)
        return verdict

    def scored(self, item: Item, row: ResultRow) -> ResultRow:
        """Return a row with its score, if there is one, and the reason."""
        if row.error is not None:
            return replace(row, score=0.0)
        verdict = self._verdict(self._digest(self._messages(item, row), item))
        return replace(row, score=verdict.score, score_reason=verdict.reason or None)

    def bill(self, rows: list[ResultRow]) -> JudgeBill:
        """Return what it all came to."""
        judged = [row for row in rows if row.error is None]
        verdicts = sum(row.score is not None for row in judged)
        past = self._journal.past
        return JudgeBill(verdicts, len(judged) - verdicts, past.judge_tokens, past.judge_cost)

    def _messages(self, item: Item, row: ResultRow) -> list[Message]:
        return self._judge.messages(item.prompt, self._scoring.wanted(item.row), row.answer)

    def _digest(self, messages: list[Message], item: Item) -> str:
        return self._judge.digest(messages, item.identity)

    def _verdict(self, digest: str) -> Judgement:
        return self._journal.past.verdicts.get(digest, Judgement())
