"""`%rlm`, `%%rlm`, `%rlm_key` and `%rlm_restore`: what `%load_ext rlm_jupyter` brings into a session."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import getpass
import os
import threading
from argparse import REMAINDER, Namespace
from typing import Any, cast

from IPython.core.error import StdinNotImplementedError, UsageError
from IPython.core.magic import line_cell_magic, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments
from traitlets import observe

from rlm_jupyter import restore, store
from rlm_jupyter.approval import Approvals
from rlm_jupyter.completer import install
from rlm_jupyter.configured import Configured
from rlm_jupyter.context import Context
from rlm_jupyter.errors import RLMError
from rlm_jupyter.events import Event
from rlm_jupyter.here import source as here_source
from rlm_jupyter.kept import Kept
from rlm_jupyter.kernel.guest.magics import keep_questions
from rlm_jupyter.live import by_hand, progress
from rlm_jupyter.live.by_hand import to_its_kernel
from rlm_jupyter.live.widget import Steering
from rlm_jupyter.models import PROVIDERS
from rlm_jupyter.options import or_close, split
from rlm_jupyter.reopened import RecordedWorkspace
from rlm_jupyter.resuming import ResumeMagics
from rlm_jupyter.rlm import RLM
from rlm_jupyter.running import Running
from rlm_jupyter.settings import request_digest
from rlm_jupyter.shown import BackgroundRun, ShownResult, in_one_line, line_of, show_recorded, wait

RESULT = "rlm_result"
"""The variable that a result lands in, when no other is named."""


@magics_class
class RLMMagics(Configured):
    """A recursive language model in this session; each option of `%rlm` can be configured here."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._kept = Kept(self.max_kept_kernels, self.kernel_idle_seconds)
        atexit.register(self.close)

    # the help of `%rlm?` is made of this docstring and the arguments
    @magic_arguments()
    @argument(
        "-c",
        "--context",
        action="append",
        default=[],
        metavar="NAME",
        help="""
        A variable that becomes `context`; several (-c a -c b, or -c a,b) become a dict by name.""",
    )
    @argument("-m", "--model", help="The model that drives the run: provider/model.")
    @argument("--sub-model", metavar="MODEL", help="The model that answers sub-calls. Default: the same.")
    @argument("--base-url", metavar="URL", help="Where it is served (and a sub-model of the same provider).")
    @argument("--window", type=int, metavar="TOKENS", help="What it reads, with its reply. Default: as it is served.")
    @argument("-o", "--output", metavar="VAR", default=RESULT, help="The result's variable. Default: rlm_result.")
    @argument("--max-iterations", type=int, metavar="N", help="Replies of the model.")
    @argument("--max-seconds", type=float, metavar="S", help="Wall time.")
    @argument("--max-cost", type=float, metavar="USD", help="US dollars.")
    @argument("--max-tokens", type=int, metavar="N", help="Input and output tokens.")
    @argument("--max-subcalls", type=int, metavar="N", help="Prompts answered for cells.")
    @argument("--max-depth", type=int, metavar="N", help="At which rlm_query becomes a plain call.")
    @argument("--save", metavar="PATH", help="Where the run is saved: its notebook, or a folder/. Default: rlm_runs/.")
    @argument("--termination", metavar="POLICY", help="A termination policy: its name, or a variable that holds one.")
    @argument("--reward", metavar="POLICY", help="A reward policy: its name, or a variable: a policy or a function.")
    @argument("--sandbox", metavar="KIND", help="bwrap, none, or auto: the best there is.")
    @argument("--read", action="append", metavar="PATH", help="A folder or file that the sandbox shows, read-only.")
    @argument("--write", action="append", metavar="PATH", help="A folder or file that its code may change.")
    @argument("--snapshot", action="store_true", help="Keep its variables after each cell, in case its kernel dies.")
    @argument("--estimate", action="store_true", help="Say what it may cost, and ask nothing.")
    @argument("--rerun", action="store_true", help="Ask anew, though the same was asked before.")
    @argument("--approve", action="store_true", help="Each cell waits: run it, edit it, refuse it with a note.")
    @argument("--here", action="store_true", help="Let the model drive this notebook's own kernel: no sandbox.")
    @argument("--background", action="store_true", help="Return at once; the result's variable is set in the end.")
    @argument("prompt", nargs=REMAINDER, help="With %%rlm: the question. With %%%%rlm it stands in the cell.")
    @line_cell_magic
    def rlm(self, line: str, cell: str | None = None) -> None:
        """Answer a question about a text far longer than a model can read.

        The model looks at the variables named with -c by code in a kernel of its own. The answer is shown,
        and the result is in a variable: rlm_result.ask("…") puts a further question to the same kernel.

          %%rlm -c book -m anthropic/claude-sonnet-5 --max-cost 0.50
          Which characters lie to Alice, and where?
        """
        options, prompt = self._parse(line, cell)
        if not options.output.isidentifier():
            raise UsageError(f"-o takes the name of a variable, not {options.output!r}.")
        if options.here:
            raise UsageError(here_source.why_not_awaited(self.shell))
        if not options.estimate:
            self._drop(options.output)
        try:
            self._answer(options, prompt)
        except (RLMError, KeyboardInterrupt) as error:
            raise in_one_line(error) from None

    async def rlm_here(self, line: str, cell: str | None = None) -> None:
        """Answer with this session's own kernel: what a cell of `%%rlm --here` is turned into."""
        from rlm_jupyter.here.answer import Asked, answer

        options, prompt = self._parse(line, cell)
        if not options.output.isidentifier():
            raise UsageError(f"-o takes the name of a variable, not {options.output!r}.")
        if options.background:
            raise UsageError("--here runs in this cell: leave --background out.")
        if options.sandbox or options.read or options.write:
            raise UsageError("--here runs in this notebook's kernel, which is in no sandbox: leave that option out.")
        if options.snapshot:
            raise UsageError("--here runs in this notebook's kernel, which is not started again: leave --snapshot out.")
        if options.approve:
            self._check_somebody_answers(options)
        if not options.estimate:
            self._drop(options.output)
        try:
            context = self.context(options.context)
            if options.estimate:
                print(self.configured(options).estimate(prompt, context))  # noqa: T201
                return
            model, configured = self.configuration(options)
            result = await answer(
                self.shell, Asked(prompt, context, model, configured, _asks_anew(options), options.approve)
            )
            self._put(options.output, result)
            self._show(result)
            if result.stop_reason == "cancelled":
                raise KeyboardInterrupt(f"the run was stopped; {options.output} holds what it had")
        except (RLMError, KeyboardInterrupt, asyncio.CancelledError) as error:
            raise in_one_line(error) from None

    def by_hand(self, cell_id: str, source: str) -> None:
        """Run a live cell in the kernel of its run: what such a cell is turned into."""
        try:
            by_hand.execute(self.shell, cell_id, source)
        except (RLMError, KeyboardInterrupt) as error:
            raise in_one_line(error) from None

    @line_magic
    def rlm_key(self, line: str) -> None:
        """Enter a provider's key so that it stands in no notebook: `%rlm_key [PROVIDER]`.

        It goes into this process's environment, for as long as the session lives.
        """
        named = line.strip() or (self._model() or "").partition("/")[0]
        keyed = {name: preset for name, preset in PROVIDERS.items() if preset.key_variables}
        if named not in keyed:
            what = f"No provider {named!r} takes a key" if named else "Name the provider"
            raise UsageError(f"{what}: %rlm_key {or_close(named, list(keyed))}")
        variable = keyed[named].key_variables[0]
        try:
            key = getpass.getpass(f"{variable}: ").strip()  # looked up now: ipykernel puts its own in place
        except (StdinNotImplementedError, EOFError):
            raise UsageError(f"Nobody can be asked here: set {variable} in the environment instead.") from None
        except KeyboardInterrupt:
            key = ""
        if not key:
            raise UsageError(f"Nothing was entered; {variable} is as it was.")
        os.environ[variable] = key
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

    def finish(self, running: Running, shown: progress.Progress, variable: str) -> None:
        """Wait for a run that another magic has started, and show what came of it in its place."""
        self._drop(variable)
        shown.steer(running)
        try:
            self._await(running, shown, Namespace(output=variable, background=False), None, None)
        except BaseException:
            _abandon(running)
            raise

    def asks_here(self, line: str) -> bool:
        """Whether `--here` is among the options at the beginning of a magic's line."""
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
        """The options, and the prompt exactly as it was written."""
        options, rest = split(cast(Any, self.rlm).parser, line)
        if cell is None:
            if not rest:
                raise UsageError("What is the question? %rlm [options] question; %rlm? shows the options.")
            return options, rest
        if rest:
            raise UsageError(f"The prompt stands below the first line, which takes options only, not {rest!r}.")
        return options, cell.removesuffix("\n")

    def _answer(self, options: Namespace, prompt: str) -> None:
        context = Context(self.context(options.context))
        configured = self.configured(options)
        if options.estimate:
            print(configured.estimate(prompt, context))  # noqa: T201
            return
        if not _asks_anew(options) and self._show_recorded(options.output, configured, prompt, context):
            return
        if options.approve:
            self._check_somebody_answers(options)
        for line in self._kept.make_room(1):
            print(line)  # noqa: T201
        shown = progress.start(self.shell, quiet=options.background)
        approvals = Approvals(elsewhere=lambda: getattr(shown, "has_buttons", False)) if options.approve else None

        steering = Steering() if options.background else None

        def on_event(event: Event) -> None:
            shown(event)
            for further in (approvals, steering):
                if further is not None:
                    further(event)

        try:
            running = configured.start(prompt, context, on_event=on_event, keep_kernel=True, approve=options.approve)
        except BaseException:
            shown.end(failed=True)
            raise
        shown.steer(running)
        try:
            self._await(running, shown, options, approvals, steering)
        except BaseException:
            _abandon(running)  # also when an interrupt came where nobody waits for one
            raise

    def _check_somebody_answers(self, options: Namespace) -> None:
        if options.background:
            raise UsageError("--approve asks about each cell, so the run can't go on in the background.")
        if getattr(getattr(self.shell, "kernel", None), "_allow_stdin", True) is False:
            raise UsageError(
                "--approve asks about each cell, and nobody can answer here: this front end takes no input."
            )

    def _await(
        self,
        running: Running,
        shown: progress.Progress,
        options: Namespace,
        approvals: Approvals | None,
        steering: Steering | None,
    ) -> None:
        """Wait for the run and show what came of it, or leave it to itself."""
        variable = options.output
        if options.background:
            print(f"In the background. {variable} shows it, {variable}.stop() ends it.")  # noqa: T201
            self._leave(running, shown, variable, steering)
            return
        try:
            result = wait(running, approvals)
        except RLMError:
            shown.end(failed=True)
            raise
        if result is None:
            self._leave(running, shown, variable)
            raise KeyboardInterrupt("the run is being stopped in the background")
        self._put(variable, ShownResult.of(result))
        shown.end(result.path)
        self._show(ShownResult.of(result))
        if result.stop_reason == "cancelled":
            # the cell fails, so that Run All stops here, as it does wherever a cell is interrupted
            raise KeyboardInterrupt(f"the run was stopped; {variable} holds what it had")

    def _show_recorded(self, variable: str, configured: RLM, prompt: str, held: Context) -> bool:
        """Show the recorded run that answered exactly this, if there is one."""
        save = configured.settings.save
        if save is False or not prompt.strip():
            return False
        digest = request_digest(configured.settings, prompt, held)
        found = store.find_request(digest, store.folder_of(save))
        if found is None:
            return False
        kept = RecordedWorkspace(configured.settings, held, found, lambda: self._kept.make_room(1))
        result = show_recorded(self.shell, found, kept)
        self._put(variable, result)
        self._show(result)
        return True

    def _leave(
        self, running: Running, shown: progress.Progress, variable: str, steering: Steering | None = None
    ) -> None:
        """Let a run go on in the background, and see to its end from there."""
        handle = BackgroundRun(running, variable, steering)
        self._put(variable, handle)

        def finish() -> None:
            try:
                result = handle.result()
            except RLMError as error:
                shown.end(title=line_of(error), failed=True)
                if steering is not None:
                    steering.fail()
                return
            if not self._kept.has(variable, handle):  # another run has taken its place
                result.close()
            elif cast(Any, self.shell).user_ns.get(variable) is handle:
                self._put(variable, result)
            else:  # somebody gave the variable another meaning
                self._kept.put(variable, result)
            shown.end(result.path, title=" ".join(self._kept.make_room()), below=result.answer_html())
            if result.stop_reason == "cancelled":
                result.close()

        threading.Thread(target=finish, name="rlm_jupyter background", daemon=True).start()

    def _put(self, variable: str, value: ShownResult | BackgroundRun) -> None:
        """Put it into its variable; a kernel lives until another result takes the place."""
        self._kept.put(variable, value)
        cast(Any, self.shell).push({variable: value})

    def _drop(self, variable: str) -> None:
        """Close what the variable held, and unset it: an answer to something else must not stand there."""
        if self._kept.drop(variable):
            namespace = cast(Any, self.shell).user_ns
            if isinstance(namespace.get(variable), ShownResult | BackgroundRun):
                del namespace[variable]

    def _show(self, result: ShownResult) -> None:
        """The answer; the numbers stand above it."""
        publisher = cast(Any, self.shell).display_pub
        publisher.publish({"text/html": result.answer_html(), "text/plain": result.answer_text()})


def _asks_anew(options: Namespace) -> bool:
    """Whether a recorded run is passed over: on demand, or because cells are to be approved, and a record has none."""
    return bool(options.rerun or options.approve)


def load(shell: Any) -> None:
    """Register the magics with an IPython shell; a second time does nothing."""
    if RLMMagics.__name__ in shell.magics_manager.registry:
        return
    magics = RLMMagics(shell)
    shell.register_magics(magics)
    shell.register_magics(ResumeMagics(shell, magics.finish))
    parser = cast(Any, magics.rlm).parser
    install(shell, lambda: [name for action in parser._actions for name in action.option_strings])
    # before questions are kept: it takes the line as it was written
    shell.input_transformers_cleanup.append(here_source.awaited(shell, magics.asks_here))
    shell.input_transformers_cleanup.append(keep_questions("rlm"))
    shell.input_transformers_cleanup.insert(0, to_its_kernel(shell))


def _abandon(running: Running) -> None:
    """Stop a run and close its kernel, without waiting for it."""
    running.stop()

    def close() -> None:
        with contextlib.suppress(RLMError):
            running.result().close()

    threading.Thread(target=close, name="rlm_jupyter abandon", daemon=True).start()
