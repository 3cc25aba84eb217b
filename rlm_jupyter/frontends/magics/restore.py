"""`restore`: makes a saved run's notebook re-runnable in anybody's kernel; nothing is asked, nothing spent.

`context` and the functions are put into the session, and sub-calls are answered from the run's record, in which
each is found again as `recorded_calls.RecordedCalls` says.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlm_jupyter.kernel.guest import output_folder
from rlm_jupyter.kernel.guest.final_functions import Finals, NamedFinals
from rlm_jupyter.kernel.guest.magics import SubcallMagics, keep_questions
from rlm_jupyter.kernel.guest.namespace import ProtectedNames
from rlm_jupyter.kernel.guest.search import SEARCH, search_in
from rlm_jupyter.kernel.guest.subcall_client import SubcallError, SubcallFailure
from rlm_jupyter.kernel.guest.subcall_functions import functions
from rlm_jupyter.kernel.guest.tool_functions import tool_functions
from rlm_jupyter.kernel.guest.trajectory_view import TrajectoryView
from rlm_jupyter.record import catalog, safe_html
from rlm_jupyter.record.iteration import Cell
from rlm_jupyter.record.run_files import read_files
from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.replay.recorded_calls import KernelCalls, saved_outputs
from rlm_jupyter.run.context import unpack
from rlm_jupyter.run.history import History
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.json_schema import takes_none
from rlm_jupyter.types.values import CellPosition, PackedContext

_SESSION = "_rlm_restored"
"""The attribute of a shell that holds what was restored last."""


def restore(shell: Any, run: str) -> str:
    """Put a saved run's `context` and functions into a session.

    Parameters
    ----------
    shell
        The IPython shell, such as a notebook's kernel has.
    run
        As for `last_prompt`; it is looked for in the working directory and its `rlm_runs`.

    Returns
    -------
    str
        One line for people: what there is now.

    Raises
    ------
    RecordError
        There is no such run, or its context is not with it.
    """
    files = catalog.find_prompts(run)[-1]
    saved = SavedRun(files, Trajectory(read_files(files)[0]), None, ())
    trajectory, packed = saved.trajectory, files.load_context()
    contexts = [_unpack(one) for one in saved.contexts()]
    before = getattr(shell, _SESSION, None)
    if before is not None:
        before.leave()
    restored = _Restored(shell, trajectory)
    restored.enter(contexts, _history(saved))
    setattr(shell, _SESSION, restored)
    info = packed.info
    said = f"`context` is back ({info.type_name}, {info.size})" if packed.kind != "none" else "There is no context"
    count = len(trajectory.subcalls)
    calls = f"its {count:,} sub-call{' is' if count == 1 else 's are'} answered from the record, nothing is asked"
    return f"{said}; {calls if count else 'it made no sub-calls'}."


class _Restored:
    """A run in a session that it did not run in: names, answers and how its cells are executed."""

    def __init__(self, shell: Any, trajectory: Trajectory) -> None:
        self._shell = shell
        self._trajectory = trajectory
        self._calls = KernelCalls(trajectory)
        self._past = TrajectoryView(self._calls)
        self._names = ProtectedNames(shell)
        self._own: set[str] = set()
        self._source = ""
        self._depth = 0
        self._code_name = shell.compile.get_code_name
        self._finals = Finals(
            shell.user_ns,
            self._own.__contains__,
            lambda: self._source,
            lambda: [name for name, _, _ in self._names.variables()],
        )
        self._finals.takes_none = takes_none(trajectory.started.options.get("answer"))
        self._cells: dict[str, list[tuple[CellPosition, Cell]]] = defaultdict(list)
        self._executed: dict[str, int] = defaultdict(int)
        self._named = NamedFinals()
        self._questions: Callable[[list[str]], list[str]] = keep_questions("llm_query")
        for iteration in trajectory.iterations:
            for cell in iteration.cells:
                self._cells[cell.source.strip()].append(((iteration.index, cell.block), cell))

    def enter(self, contexts: Sequence[Any], history: dict[str, Any]) -> None:
        """Put everything in place.

        Parameters
        ----------
        contexts
            What its kernel had, in order; the last is `context`.
        history
            What it had of the prompts before.
        """
        numbered = {f"context_{number}": context for number, context in enumerate(contexts)}
        shell, finals = self._shell, self._finals.functions()
        self._names.protect(
            functions(self._calls)
            | {"trajectory": self._past}
            | tool_functions(self._calls, self._trajectory.started.options.get("tools", ()))
            | finals
            | {"SHOW_VARS": self._names.show, SEARCH: search_in(shell.user_ns)}
            | {"SubcallError": SubcallError, "SubcallFailure": SubcallFailure}
            | ({"context": contexts[-1], **numbered} if contexts else {"context": "", "context_0": ""})
        )
        if self._trajectory.started.options.get("outputs"):
            # a folder of this session's own: what the run made is not written over
            history = {output_folder.NAME: Path(tempfile.mkdtemp(prefix="rlm-outputs-")), **history}
        answer = {"answer": {"content": "", "ready": False}}
        self._names.provide({"history": [], **answer, **history, **saved_outputs(self._trajectory)})
        shell.register_magics(SubcallMagics)
        shell.ast_transformers.append(self._named)
        shell.compile.get_code_name = self._note_code
        shell.input_transformers_cleanup.extend([self._questions, self._as_executed])
        shell.events.register("pre_run_cell", self._before_cell)
        shell.events.register("post_run_cell", self._after_cell)

    def leave(self) -> None:
        """Take back what acts on cells; the names stay."""
        shell = self._shell
        shell.ast_transformers.remove(self._named)
        shell.compile.get_code_name = self._code_name
        shell.input_transformers_cleanup.remove(self._questions)
        shell.input_transformers_cleanup.remove(self._as_executed)
        shell.events.unregister("pre_run_cell", self._before_cell)
        shell.events.unregister("post_run_cell", self._after_cell)

    def _note_code(self, raw_code: str, code: str, number: int) -> str:
        """Note the file name of what the reader executes: a document that a cell executes is no cell."""
        name: str = self._code_name(raw_code, code, number)
        is_rest = self._source.startswith("%%") and self._source.rstrip().endswith(raw_code.rstrip())
        if raw_code == self._source or is_rest:
            self._own.add(name)
        return name

    def _before_cell(self, info: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        self._source = info.raw_cell or ""
        source = (info.raw_cell or "").strip()
        recorded = self._cells.get(source)
        self._finals.reset()
        if recorded is None:
            self._calls.begin(None)
            return
        time = self._executed[source]
        self._executed[source] = time + 1
        self._calls.begin(recorded[time % len(recorded)][0])
        self._past.forget()  # a reader may go back
        self._names.restore()  # as the run did; a reader's own cells may use the names as they like

    def _after_cell(self, result: Any) -> None:
        self._depth = max(self._depth - 1, 0)  # the cell that restores the run had begun before
        if self._depth == 0 and (answer := self._finals.answer) is not None:
            self._shell.display_pub.publish(
                {"text/html": safe_html.markdown(answer.text), "text/plain": answer.text},
                metadata={"rlm": {"role": "answer"}},
            )
            self._finals.reset()

    def _as_executed(self, lines: list[str]) -> list[str]:
        """Return what the run executed for a cell that it had mended; the notebook shows it as the model wrote it."""
        recorded = self._cells.get("".join(lines).strip(), ())
        executed = next((cell.executed for _, cell in recorded if cell.executed is not None), None)
        return lines if executed is None else f"{executed}\n".splitlines(keepends=True)


def _history(saved: SavedRun) -> dict[str, Any]:
    """Return `history`, `history_0` and so on, as far as the prompts before are there."""
    history = History()
    with contextlib.suppress(RecordError):
        for run, is_told in saved.earlier():
            if is_told:
                history.add(run.trajectory)
    return history.variables


def _unpack(packed: PackedContext) -> Any:
    try:
        return unpack(packed)
    except ImportError as error:
        raise RecordError(f"The context needs {error.name}, which is not installed here.") from error
    except Exception as error:  # a pickle runs what it likes
        raise RecordError(f"The context can't be loaded: {type(error).__name__}: {error}.") from error
