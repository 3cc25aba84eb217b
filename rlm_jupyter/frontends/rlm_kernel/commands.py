"""`%context`, `%model`, `%limits`, `%rlm_key`: what a person sets for the prompts to come."""

from __future__ import annotations

import asyncio
import os
import re
import shlex

from rlm_jupyter.frontends import keys
from rlm_jupyter.frontends.rlm_kernel.backend import Driven
from rlm_jupyter.frontends.rlm_kernel.config import KernelConfiguration
from rlm_jupyter.frontends.rlm_kernel.output import Page
from rlm_jupyter.frontends.rlm_kernel.parsed_cell import Command
from rlm_jupyter.models.pricing import parsed_prices
from rlm_jupyter.run import background
from rlm_jupyter.run.files import load as files
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.values import ContextInfo

HELP = {
    "context": (
        "%context PATH …\n\nRead files, folders or patterns (text, csv, json, parquet, pdf, docx, xlsx, pptx, html, "
        "ipynb, zip; .gz too): they become `context`, which prompts are about. What was context before stays in "
        "context_0, context_1, …\n"
        "A %%python cell that assigns to `context` does the same: context = open('report.txt').read()\n"
        "Alone it says what context is.\n\nExample: %context report.txt 'docs/**/*.md'"
    ),
    "model": (
        "%model PROVIDER/MODEL [--sub-model PROVIDER/MODEL] [--base-url URL] [--window TOKENS]\n"
        "       [--price PROVIDER/MODEL=IN,OUT[,CACHED]]\n\nThe model that answers prompts, and the one that answers "
        "its sub-calls; where they are served, and how much they read. A price is in US dollars for a million tokens, "
        "where the list prices are wrong or have none.\nAlone it says which they are.\n\n"
        "Example: %model anthropic/claude-sonnet-5 --sub-model anthropic/claude-haiku-4-5"
    ),
    "limits": (
        "%limits NAME=VALUE …\n\nWhat each prompt may use: max_cost (US dollars), max_seconds, max_tokens, "
        "max_iterations, max_subcalls, …; none lifts one.\nAlone it says what they are.\n\n"
        "Example: %limits max_cost=0.5 max_seconds=60"
    ),
    "rlm_key": (
        "%rlm_key PROVIDER\n\nEnter the provider's key so that it stands in no notebook. It stays in this kernel, "
        "for as long as it lives; the kernel behind never has it.\n\nExample: %rlm_key anthropic"
    ),
    "help": "%help\n\nWhat can be written in a cell of this kernel.",
}
"""The commands by name, and what is said of them."""
_SHORT = {
    "context": "%context PATH …            what prompts are about: files, folders, patterns",
    "model": "%model PROVIDER/MODEL      who answers; alone: who does now",
    "limits": "%limits max_cost=0.5       what each prompt may use; alone: what it may now",
    "rlm_key": "%rlm_key PROVIDER          enter a key, so that it stands in no notebook",
}
_HELP = (
    "A cell in plain language is a question: a model answers it by driving the kernel behind this one.\n\n"
    + "\n".join(f"  {line}" for line in _SHORT.values())
    + "\n  %%python, !, other magics  run in that kernel: its variables are there to look at and to change\n\n"
    "%context? and the like say more."
)
_PAIR = re.compile(r"([\w-]+)\s*=\s*([^\s,=]+)(?:[\s,]+|$)")


class Commands:
    """Carries them out.

    Parameters
    ----------
    driven
        Gets the context.
    configuration
        Gets models and limits.
    ask
        Asks a person for something secret.
    """

    def __init__(self, driven: Driven, configuration: KernelConfiguration, ask: keys.Ask) -> None:
        self._driven = driven
        self._configuration = configuration
        self._ask = ask

    async def run(self, command: Command, page: Page) -> None:
        """Carry one out, and say what came of it.

        Raises
        ------
        RLMError
            In one line, what is wrong; then nothing was changed.
        """
        match command.name:
            case "context":
                await self._context(command.arguments, page)
            case "model":
                self._model(command.arguments, page)
            case "limits":
                self._limits(command.arguments, page)
            case "rlm_key":
                variable = keys.enter(command.arguments, self._ask)
                page.say(f"{variable} is set for as long as this kernel lives.")
            case "help":
                page.say(_HELP)

    async def _context(self, arguments: str, page: Page) -> None:
        paths = words(arguments)
        if not paths:
            page.say(described(self._driven.context))
            return
        if files.STDIN in paths:
            raise ConfigurationError("-: there is no standard input here; name a file.")
        value = await asyncio.to_thread(files.load, paths, note=page.note)
        info = await asyncio.wrap_future(background.submit(self._driven.set_context(value, page.note)))
        page.say(described(info))

    def _model(self, arguments: str, page: Page) -> None:
        names = words(re.sub(r"(^|\s)(--sub-model|--base-url|--window|--price)=", r"\1\2 ", arguments))
        sub_models = _taken(names, "--sub-model", "PROVIDER/MODEL")
        urls, windows = _taken(names, "--base-url", "URL"), _taken(names, "--window", "TOKENS")
        prices = parsed_prices(_taken(names, "--price", "PROVIDER/MODEL=IN,OUT"))
        if len(names) > 1 or len(sub_models) > 1 or (names and names[0].startswith("-")):
            said = " ".join([*names, *sub_models])
            raise ConfigurationError(
                f"%model takes one model, --sub-model, --base-url, --window and --price, not {quoted(said)}."
            )
        if windows and not windows[-1].isdecimal():
            raise ConfigurationError(f"--window {windows[-1]}: a number of tokens is needed.")
        if names or sub_models or urls or windows or prices:
            self._configuration.name(
                names[0] if names else None,
                sub_models[0] if sub_models else None,
                prices,
                base_url=urls[-1] if urls else None,
                window=int(windows[-1]) if windows else None,
            )
        page.say(self._configuration.described())

    def _limits(self, arguments: str, page: Page) -> None:
        if not arguments:
            page.say(self._configuration.described_limits())
            return
        at, changes = 0, {}
        while found := _PAIR.match(arguments, at):
            changes[found[1].replace("-", "_")] = found[2]
            at = found.end()
        if at < len(arguments):
            raise ConfigurationError(
                f"%limits takes NAME=VALUE, as in max_cost=0.5, not {quoted(arguments[at:].strip())}."
            )
        self._configuration.limit(changes)
        page.say(self._configuration.described_limits())


def _taken(names: list[str], option: str, what: str) -> list[str]:
    """Return what stands behind each `option`; both are taken out of the words."""
    taken = []
    while option in names:
        at = names.index(option)
        if at + 1 == len(names):
            raise ConfigurationError(f"{option} needs a value: {option} {what}.")
        taken.append(names[at + 1])
        del names[at : at + 2]
    return taken


def words(line: str) -> list[str]:
    """Return its words; quotes keep blanks together.

    Raises
    ------
    ConfigurationError
        A quotation mark is open.
    """
    try:
        return [word.strip("\"'") if os.name == "nt" else word for word in shlex.split(line, posix=os.name != "nt")]
    except ValueError:
        raise ConfigurationError(f"A quotation mark is missing in {quoted(line)}.") from None


def described(info: ContextInfo) -> str:
    """Return what a context is, in a line."""
    if info.type_name == "none":
        return "There is no context yet: %context PATH … reads files into it."
    return f"context: {info.type_name}, {info.size}"
