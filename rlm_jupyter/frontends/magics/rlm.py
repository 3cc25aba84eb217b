"""`%rlm`, `%%rlm`, `%rlm_warm`, `%rlm_key` and `%rlm_restore`: what `%load_ext rlm_jupyter` brings into a session.

Long for the docstrings of the magics, which are their help.
"""

from __future__ import annotations

import asyncio
import atexit
import getpass
from argparse import REMAINDER, Namespace
from pathlib import Path
from typing import Any, cast

from IPython.core.error import UsageError
from IPython.core.magic import line_cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments
from traitlets import observe

from rlm_jupyter.batch.display import show_by
from rlm_jupyter.frontends import keys
from rlm_jupyter.frontends.display.batch_table import BatchTable
from rlm_jupyter.frontends.here import transform
from rlm_jupyter.frontends.live import user_cells as by_hand
from rlm_jupyter.frontends.live.error_line import in_one_line
from rlm_jupyter.frontends.live.user_cells import to_its_kernel
from rlm_jupyter.frontends.magics import restore
from rlm_jupyter.frontends.magics.config import Configured
from rlm_jupyter.frontends.magics.context import context_of
from rlm_jupyter.frontends.magics.help import usage
from rlm_jupyter.frontends.magics.kernels import KeptKernels
from rlm_jupyter.frontends.magics.llm_query import QuestionMagics
from rlm_jupyter.frontends.magics.result_name import check_result_name
from rlm_jupyter.frontends.magics.resume import ResumeMagics
from rlm_jupyter.frontends.magics.session_runs import SessionRuns
from rlm_jupyter.frontends.magics.sessions import Sessions, cell_id
from rlm_jupyter.frontends.magics.tab_completion import install
from rlm_jupyter.frontends.option_line import split
from rlm_jupyter.frontends.run_options import magic
from rlm_jupyter.kernel.guest.magics import SubcallMagics, keep_questions
from rlm_jupyter.record import store
from rlm_jupyter.replay.session_record import check_name, in_session
from rlm_jupyter.run import background
from rlm_jupyter.run.approval import Approve, asks_here
from rlm_jupyter.run.context import Context
from rlm_jupyter.run.estimate import estimate
from rlm_jupyter.run.prompt import check_length
from rlm_jupyter.run.question import check_readable
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.run.settings import Settings, refuse_absent
from rlm_jupyter.types.errors import ConfigurationError, RLMError
from rlm_jupyter.types.quoted import quoted


@magics_class
class RLMMagics(Configured):
    """A recursive language model in this session; each option of `%rlm` can be configured here."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._kept = KeptKernels(self.max_kept_kernels, self.kernel_idle_seconds)
        self._sessions = Sessions(self._kept)
        self.runs = SessionRuns(shell, self._kept)
        """Shows the runs of this session; shared with `%rlm_resume`."""
        atexit.register(self.close)

    # the help of `%%rlm?` is made of the docstring, these lines and the arguments
    @usage("%%rlm [options]", "the question, in as many lines as it takes", "", "%rlm [options] the question in a line")
    @magic_arguments()
    @argument(
        "-c",
        "--context",
        action="append",
        default=[],
        metavar="NAME",
        help="""
        A variable that becomes `context`; or @PATH: a file, a folder or a pattern (@reports/, @"a b/*.csv"). Several
        (-c a -c b, or -c a,b) become a dict by name.""",
    )
    @magic("magic")
    @argument("prompt", nargs=REMAINDER, help="With %%rlm: the question. With %%%%rlm it stands in the cell.")
    @line_cell_magic
    def rlm(self, line: str, cell: str | None = None) -> None:
        """Answer a question about a text far longer than a model can read.

        The model looks at the variables and files named with -c by code in a kernel of its own. The answer is shown,
        and the result is in a variable: rlm_result.ask("…") puts a further question to the same kernel.

          %%rlm -c book -m anthropic/claude-sonnet-5 --max-cost 0.50
          Which characters lie to Alice, and where?
        """
        options, prompt = self._parse(line, cell)
        check_result_name(options.result)
        if options.here:
            raise UsageError(transform.why_not_awaited(self.shell))
        try:
            self._answer(options, prompt)
        except (RLMError, KeyboardInterrupt) as error:
            raise in_one_line(error) from None

    async def rlm_here(self, line: str, cell: str | None = None) -> None:
        """Answer with this session's own kernel: what a cell of `%%rlm --here` is turned into."""
        from rlm_jupyter.frontends.here.notebook_side import answer
        from rlm_jupyter.frontends.here.question import Question
        from rlm_jupyter.run.answer_type import AnswerType

        options, prompt = self._parse(line, cell)
        check_result_name(options.result)
        _check_here(options)
        if options.approve:
            self._check_somebody_answers(options)
        try:
            if options.estimate:
                to_ask = self.configured(options)
                print(to_ask.estimate(prompt, self._context(options)))  # noqa: T201
                return
            model, configured = self.configuration(options)
            answer_type = AnswerType.of(configured.get("answer"))
            context = self._context(options)
            if answer_type is not None:
                configured["answer"] = answer_type.schema
            question = Question(prompt, context, model, configured, answer_type, _asks_anew(options), options.approve)
            claim = self.runs.claim(options.result)
            try:
                result = await answer(self.shell, question, claim)
            except BaseException as error:
                self.runs.conclude_failed(claim, error)
                raise
            self.runs.conclude(claim, result)
        except (RLMError, KeyboardInterrupt, asyncio.CancelledError) as error:
            raise in_one_line(error) from None

    def by_hand(self, cell_id: str, source: str) -> None:
        """Run a live cell in the kernel of its run: what such a cell is turned into."""
        try:
            by_hand.execute(self.shell, cell_id, source)
        except (RLMError, KeyboardInterrupt) as error:
            raise in_one_line(error) from None

    @line_magic
    def rlm_warm(self, line: str) -> None:
        """Make ready what the next run's kernel is forked from: `%rlm_warm [OPTIONS of %rlm]`; returns at once."""
        try:
            options, rest = split(cast(Any, self.rlm).parser, line)
            if rest:
                raise UsageError(f"%rlm_warm takes options of %rlm only, not {quoted(rest)}.")
            self.configured(options).warm()
            self.say_if_embedded(options)
        except RLMError as error:
            raise in_one_line(error) from None

    @line_magic
    def rlm_key(self, line: str) -> None:
        """Enter a provider's key so that it stands in no notebook: `%rlm_key [PROVIDER]`.

        It goes into this process's environment, for as long as the session lives.
        """
        provider = line.strip() or (self._model() or "").partition("/")[0]
        try:
            variable = keys.enter(provider, lambda text: getpass.getpass(text))  # ipykernel replaces it: late lookup
        except ConfigurationError as error:
            raise UsageError(str(error)) from None
        print(f"{variable} is set for this session.")  # noqa: T201

    @line_magic
    def rlm_restore(self, line: str) -> None:
        """Make a saved run's notebook re-runnable: `%rlm_restore RUN_ID`.

        `context` is back, and sub-calls are answered from the record; nothing is asked, nothing spent.
        """
        if not line.strip():
            raise UsageError("Which run? %rlm_restore RUN_ID, as in the first cell of its notebook.")
        try:
            print(restore.restore(self.shell, line.strip()))  # noqa: T201
        except RLMError as error:
            raise in_one_line(error) from None

    def asks_here(self, line: str) -> bool:
        """Return whether `--here` is among the options at the beginning of a magic's line."""
        try:
            return bool(split(cast(Any, self.rlm).parser, line)[0].here)
        except UsageError:
            return False  # the magic itself says what is wrong

    def close(self) -> None:
        """Close every kernel that was kept for more prompts."""
        self._kept.close()

    @observe("max_kept_kernels", "kernel_idle_seconds")
    def _limit_kernels(self, _: object) -> None:
        if (kept := getattr(self, "_kept", None)) is not None:  # the configuration is read before there is one
            kept.most = self.max_kept_kernels
            kept.close_after(self.kernel_idle_seconds)

    def _parse(self, line: str, cell: str | None) -> tuple[Namespace, str]:
        """Return the options, and the prompt exactly as it was written."""
        options, rest = split(cast(Any, self.rlm).parser, line)
        if cell is None:
            if not rest:
                raise UsageError("What is the question? %rlm [options] question; %rlm? shows the options.")
            return options, rest
        if rest:
            raise UsageError(f"The prompt stands below the first line, which takes options only, not {quoted(rest)}.")
        if not cell.strip():
            raise UsageError("What is the question? It stands below the line with %%rlm.")
        return options, cell.removesuffix("\n")

    def _answer_in_session(self, options: Namespace, prompt: str) -> None:
        """Ask in the session that is named: in its kernel, or from its record."""
        check_name(options.session)
        named = self._sessions.find(options)
        settings = self._opening(options) if named is None else named.kernel.settings
        value = self._context(options) if named is None else context_of(self.shell, options.context)
        context = None if value is None else Context(value)
        if named is None:
            if context is None:
                check_length(prompt)
            if options.estimate:
                print(estimate(settings, prompt, context or Context(None)))  # noqa: T201
                return
            named = self._sessions.begin(options, settings, context or Context(None))
        elif options.estimate:
            print(estimate(settings, prompt, context or named.kernel.past.context))  # noqa: T201
            return
        cell = cell_id(self.shell)
        found = None if _asks_anew(options) else named.recorded(cell, prompt, context)
        if found is None:
            named.take(context)
            named.note(cell, prompt, context)
            found = None if _asks_anew(options) else named.kernel.recorded(prompt)
        if found is not None:
            self.runs.show_found(options.result, found, named.kernel)
            return
        if options.approve:
            self._check_somebody_answers(options)
        check_readable(named.kernel.past.context, named.kernel.settings.routing.root)
        background.submit(refuse_absent(named.kernel.settings)).result()
        if named.kernel.is_recorded:
            for line in named.kernel.make_room():
                print(line)  # noqa: T201
        self.runs.run(
            lambda tell: RunHandle(named.kernel, prompt, tell, approve=_approve(options)),
            self.runs.claim(options.result),
            background=options.background,
        )

    def _context(self, options: Namespace) -> object:
        """Return what the question is about, and say who answers: nothing else is wrong with it."""
        context = context_of(self.shell, options.context)
        self.say_if_embedded(options)
        return context

    def _opening(self, options: Namespace) -> Settings:
        """Return the settings of a session that is to begin."""
        return in_session(self.configured(options).settings, options.session, options.ledger or "prompt")

    def _answer(self, options: Namespace, prompt: str) -> None:
        if options.session is not None:
            self._answer_in_session(options, prompt)
            return
        if options.ledger:
            raise ConfigurationError("--ledger is about the prompts of a session: name it with --session.")
        configured = self.configured(options)  # first: to read the context may take a while
        context = Context(self._context(options))
        if options.estimate:
            print(configured.estimate(prompt, context))  # noqa: T201
            return
        if not _asks_anew(options) and self.runs.show_recorded(options.result, configured.settings, prompt, context):
            return
        if options.approve:
            self._check_somebody_answers(options)
        check_readable(context, configured.settings.routing.root)
        background.submit(refuse_absent(configured.settings)).result()
        self.runs.run(
            lambda tell: configured.start(prompt, context, on_event=tell, keep_kernel=True, approve=_approve(options)),
            self.runs.claim(options.result),
            background=options.background,
        )

    def folder(self) -> Path | None:
        """Return the folder that runs are saved in, as configured; `None`: the default one."""
        return None if self.save is False else store.folder_of(self.save)

    def _check_somebody_answers(self, options: Namespace) -> None:
        if options.background:
            raise UsageError("--approve asks about each cell, so the run can't go on in the background.")
        if getattr(getattr(self.shell, "kernel", None), "_allow_stdin", True) is False:
            raise UsageError(
                "--approve asks about each cell, and nobody can answer here: this front end takes no input."
            )


def _check_here(options: Namespace) -> None:
    """Refuse what has no meaning in a kernel that is the user's own."""
    if options.tool or options.sub_tool or options.mcp:
        raise UsageError("--here runs in this notebook's kernel, with what is there: leave --tool and --mcp out.")
    if options.output or options.output_dir or options.replace:
        raise UsageError(
            "--here runs in this notebook's kernel, whose cells write files where they are to be: leave --output "
            "out, and name the file in the question."
        )
    if options.session:
        raise UsageError("--here runs in this notebook's kernel, which keeps its variables: leave --session out.")
    if options.background:
        raise UsageError("--here runs in this cell: leave --background out.")
    if options.sandbox or options.read or options.write:
        raise UsageError("--here runs in this notebook's kernel, which is in no sandbox: leave that option out.")
    if options.kernel_url or options.kernel_token_env:
        raise UsageError("--here runs in this notebook's kernel, not in one on a server: leave --kernel-url out.")
    if options.insurance:
        raise UsageError("--here runs in this notebook's kernel, which is not forked: leave --insurance out.")


def _approve(options: Namespace) -> Approve:
    """Return what the person at this cell is asked about."""
    return options.approve or (False if options.background else asks_here())


def _asks_anew(options: Namespace) -> bool:
    """Return whether a recorded run is passed over: on demand, or as cells are to be approved: a record has none."""
    return bool(options.rerun or options.approve)


def load(shell: Any) -> None:
    """Register the magics with an IPython shell; a second time does nothing."""
    if RLMMagics.__name__ in shell.magics_manager.registry:
        return
    magics = RLMMagics(shell)
    shell.register_magics(magics)
    shell.register_magics(ResumeMagics(shell, magics.runs, magics.folder, magics.address))
    parser = cast(Any, magics.rlm).parser
    if SubcallMagics.__name__ not in shell.magics_manager.registry:  # in a run's kernel its own stay
        shell.register_magics(QuestionMagics(shell, magics, parser.parse_args))
    install(shell, lambda: [name for action in parser._actions for name in action.option_strings])
    # before questions are kept: it takes the line as it was written
    shell.input_transformers_cleanup.append(transform.awaited(shell, magics.asks_here))
    shell.input_transformers_cleanup.append(keep_questions("rlm", "llm_query"))
    shell.input_transformers_cleanup.insert(0, to_its_kernel(shell))
    show_by(lambda: BatchTable(shell.display_pub.publish))
