"""`%rlm_resume`: going on with a saved run from a notebook."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from typing import Any, cast

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from rlm_jupyter.errors import RLMError
from rlm_jupyter.live import progress
from rlm_jupyter.resume import TakingUp, check_resumable, configuration
from rlm_jupyter.rlm import RLM
from rlm_jupyter.running import Running
from rlm_jupyter.saved import SavedRun
from rlm_jupyter.shown import in_one_line

Finish = Callable[[Running, progress.Progress, str], None]
"""Waits for a run and shows what came of it: the run, its progress, the result's variable."""
_CHANGES = ("model", "base_url", "max_iterations", "max_seconds", "max_cost", "max_tokens", "max_subcalls")


@magics_class
class ResumeMagics(Magics):
    """Goes on with saved runs in this session.

    Parameters
    ----------
    finish
        Sees a run to its end.
    """

    def __init__(self, shell: Any, finish: Finish) -> None:
        super().__init__(shell)
        self._finish = finish

    @magic_arguments()
    @argument("run", help="Name, id or path of the run.")
    @argument("-o", "--output", metavar="VAR", default="rlm_result", help="The result's variable. Default: rlm_result.")
    @argument("-m", "--model", help="Another model than before: provider/model.")
    @argument("--base-url", metavar="URL", help="Where it is served.")
    @argument("--max-iterations", type=int, metavar="N", help="Replies of the model.")
    @argument("--max-seconds", type=float, metavar="S", help="Wall time.")
    @argument("--max-cost", type=float, metavar="USD", help="US dollars.")
    @argument("--max-tokens", type=int, metavar="N", help="Input and output tokens.")
    @argument("--max-subcalls", type=int, metavar="N", help="Prompts answered for cells.")
    @argument("--no-reexec", action="store_true", help="Do not execute its cells again: the kernel is empty.")
    @line_magic
    def rlm_resume(self, line: str) -> None:
        """Go on with a saved run that was broken off, or that met a limit.

        Its cells are executed again in a new kernel, with all that they do; their sub-calls are answered from the
        record, and nothing is paid for twice. The limits may be raised.

          %rlm_resume 20250102-101500-who --max-cost 2
        """
        options: Namespace = cast(Any, self.rlm_resume).parser.parse_argstring(line)
        if not options.output.isidentifier():
            raise UsageError(f"-o takes the name of a variable, not {options.output!r}.")
        try:
            self._resume(options)
        except (RLMError, KeyboardInterrupt) as error:
            raise in_one_line(error) from None

    def _resume(self, options: Namespace) -> None:
        saved = SavedRun.load(options.run)
        check_resumable(saved, None)
        found = configuration(saved, {name: getattr(options, name) for name in _CHANGES})
        going_on = TakingUp(saved, RLM(found.model, **found.options).settings, reexecutes=not options.no_reexec)
        shown = progress.start(self.shell)
        try:
            running = Running(going_on, saved.trajectory.started.prompt, shown)
        except BaseException:
            shown.end(failed=True)
            raise
        self._finish(running, shown, options.output)
