"""`%rlm_resume`: resuming a saved run from a notebook."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

from IPython.core.magic import Magics, line_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments

from rlm_jupyter.frontends.live.error_line import in_one_line
from rlm_jupyter.frontends.magics.help import usage
from rlm_jupyter.frontends.magics.result_name import check_result_name
from rlm_jupyter.frontends.magics.session_runs import SessionRuns
from rlm_jupyter.frontends.magics.tools import named_tools
from rlm_jupyter.frontends.run_options import changes, magic
from rlm_jupyter.kernel.remote.server import token_in
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.replay.recorded_configuration import configuration
from rlm_jupyter.replay.resume import Resumption, check_resumable
from rlm_jupyter.replay.session_record import last_prompt
from rlm_jupyter.rlm import RLM
from rlm_jupyter.run import background
from rlm_jupyter.run.approval import asks_here
from rlm_jupyter.run.mcp.config import named_servers
from rlm_jupyter.run.run_handle import RunHandle
from rlm_jupyter.run.settings import refuse_absent
from rlm_jupyter.types.errors import RLMError


@magics_class
class ResumeMagics(Magics):
    """Resumes saved runs in this session.

    Parameters
    ----------
    runs
        Shows the runs, and puts their results into variables.
    folder
        Returns the folder that runs are saved in; `None`: the default one.
    address
        Returns the address that the user has configured for a model's provider; `None`: none.
    """

    def __init__(
        self,
        shell: Any,
        runs: SessionRuns,
        folder: Callable[[], Path | None],
        address: Callable[[str], str | None] = lambda model: None,
    ) -> None:
        super().__init__(shell)
        self._runs = runs
        self._folder = folder
        self._address = address

    @usage("%rlm_resume [options] [RUN]")
    @magic_arguments()
    @argument("run", nargs="?", help="Name, id or path of the run. Default: the newest.")
    @magic("%resume")
    @argument("--no-reexec", action="store_true", help="Do not execute its cells again: the kernel is empty.")
    @line_magic
    def rlm_resume(self, line: str) -> None:
        """Resume a saved run that was broken off, or that met a limit.

        Its cells are executed again in a new kernel, with all that they do; their sub-calls are answered from the
        record, and nothing is paid for twice. The limits may be raised.

          %rlm_resume
          %rlm_resume 20250102-101500-who --max-cost 2
        """
        options: Namespace = cast(Any, self.rlm_resume).parser.parse_argstring(line)
        check_result_name(options.result)
        try:
            self._resume(options)
        except (RLMError, KeyboardInterrupt) as error:
            raise in_one_line(error) from None

    def _resume(self, options: Namespace) -> None:
        if options.run is None:
            saved = last_prompt(SavedRun.newest(self._folder()).files.notebook)
            print(f"The newest run: {saved.files.prompt_name}")  # noqa: T201
        else:
            saved = last_prompt(options.run.strip("'\""))  # IPython leaves quotes in
        check_resumable(saved, None)
        tools = partial(named_tools, cast(Any, self.shell).user_ns)
        changed = changes(
            "%resume", options, {"tool": tools, "sub_tool": tools, "mcp": named_servers, "kernel_token_env": token_in}
        )
        del changed["result"]
        started = saved.trajectory.started
        if started.options.get("base_url") and changed.get("base_url") is None:
            changed["base_url"] = self._address(changed.get("model") or started.model)
        found = configuration(saved, changed)
        settings = RLM(found.model, **found.options).settings
        going_on = Resumption(saved, settings, reexecutes=not options.no_reexec)
        background.submit(refuse_absent(settings)).result()
        prompt = started.prompt
        claim = self._runs.claim(options.result, resumed=True)
        self._runs.run(lambda tell: RunHandle(going_on, prompt, tell, approve=asks_here()), claim)
