"""`%llm_query` and `%%llm_query` in the user's own notebook: one prompt to the configured model, without a run."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from rlm_jupyter.frontends.live.error_line import in_one_line
from rlm_jupyter.frontends.magics.config import Configured
from rlm_jupyter.frontends.magics.result_name import check_result_name
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run import background
from rlm_jupyter.run.budget.bill import Bill
from rlm_jupyter.run.budget.ledger import Ledger
from rlm_jupyter.run.budget.request import complete
from rlm_jupyter.run.ctrl_c import Wait
from rlm_jupyter.run.settings import Settings, prepare
from rlm_jupyter.types.errors import RLMError
from rlm_jupyter.types.values import Message

_WRONG_OPTION = re.compile(r"option (-\S+)")
"""What getopt says."""


@magics_class
class QuestionMagics(Magics):
    """Sends single prompts to a model, and counts what they cost.

    Parameters
    ----------
    configured
        The configuration of `%rlm`.
    options_of
        Parses options of `%rlm`.
    """

    def __init__(self, shell: Any, configured: Configured, options_of: Callable[[list[str]], Namespace]) -> None:
        super().__init__(shell)
        self._configured = configured
        self._options_of = options_of
        self.bill = Bill()
        """What the prompts of this session have used."""

    @line_cell_magic
    def llm_query(self, line: str, cell: str | None = None) -> str | None:
        """Ask the configured model: `%llm_query [-m MODEL] [-o VARIABLE] prompt`, or `%%llm_query`, the prompt below.

        The model reads the prompt and nothing else. It is the one that answers the sub-calls of `%rlm`. In a line,
        `{expression}` and `$name` are filled in by IPython. The reply is the value of the line, or goes into VARIABLE.
        What was spent is shown; max_cost, max_tokens and max_seconds of `%config RLMMagics` hold for each prompt.
        """
        options, rest = self._parsed(line)
        prompt = rest.strip() if cell is None else f"{rest}\n{cell}".strip()
        if not prompt:
            raise UsageError("What is the prompt? %llm_query [-m MODEL] [-o VARIABLE] prompt")
        output = options.get("o", options.get("output"))
        if output:
            check_result_name(output)
        try:
            reply = self._ask(prompt, options.get("m", options.get("model")))
        except (RLMError, KeyboardInterrupt) as error:
            raise in_one_line(error) from None
        if not output:
            return reply
        shell: Any = self.shell
        shell.push({output: reply})
        return None

    def _parsed(self, line: str) -> tuple[Any, str]:
        """Return the options, and the text after them."""
        try:
            return self.parse_options(
                line, "m:o:", "model=", "output=", posix=False, strict=False, preserve_non_opts=True
            )
        except UsageError as error:
            if (wrong := _WRONG_OPTION.search(str(error))) is None:
                raise
            said = f"{wrong[1]} needs a value" if "requires argument" in str(error) else f"there is no {wrong[1]}"
            raise UsageError(
                f"{said}. %llm_query takes -m MODEL and -o VARIABLE; %config RLMMagics sets the rest."
            ) from None

    def _ask(self, prompt: str, model: str | None) -> str:
        name, configuration = self._configured.configuration(self._options_of([] if model is None else ["-m", model]))
        settings = RLM(name, **configuration).settings
        asked = settings.routing.model_for(1 if model is None else 0)
        bill = Bill()
        future = background.submit(_answer(settings, 1 if model is None else 0, prompt, bill))
        try:
            with Wait(future) as wait:
                try:
                    wait.until_done()
                except KeyboardInterrupt:
                    future.cancel()
                    raise
                return future.result()
        finally:
            self.bill.add(bill.usage, bill.cost)
            print(f"{asked.name}: {_spent(bill)}; in this session {_spent(self.bill)}")  # noqa: T201


async def _answer(settings: Settings, depth: int, prompt: str, bill: Bill) -> str:
    ledger, limits = Ledger(settings.limits), settings.limits
    await prepare(settings, lambda event: print(getattr(event, "text", "")))  # noqa: T201
    async with settings.routing.lease():
        answered = await complete(
            settings.routing.model_for(depth),
            [Message("user", prompt)],
            ledger,
            max_output_tokens=limits.max_output_tokens,
            bill=bill,
        )
    return answered.reply.text


def _spent(bill: Bill) -> str:
    tokens = f"{bill.usage.total_tokens:,} tokens"
    return f"{tokens}, cost unknown" if bill.cost is None else f"{tokens}, ${bill.cost:.4f}" if bill.cost else tokens
