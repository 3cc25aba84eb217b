"""`Result`: what came of a run."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, Self

from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.run.answer_type import AnswerType
from rlm_jupyter.types.endings import in_short, no_answer
from rlm_jupyter.types.errors import ConfigurationError, RecordError
from rlm_jupyter.types.events import Event
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.values import ModelUsage, StopReason, Usage

_OTHER_FORMS = {".html", ".htm", ".pdf", ".json", ".jsonl", ".md", ".py", ".txt"}

OnEvent = Callable[[Event], None]
"""Told every event of a run, on a thread of ours."""


class KeptKernel(Protocol):
    """A kernel that was kept for further prompts."""

    closed: bool

    def ask(self, prompt: str, on_event: OnEvent | None) -> Result:
        """Answer another prompt."""
        ...

    def close(self) -> None:
        """End the kernel."""
        ...


@dataclass(frozen=True)
class Result:
    """What came of a run."""

    answer: str | None
    """The answer as text; `None` when there is none."""
    value: Any
    """The answer as plain data where it is JSON-able (a dict, a number), else its text. With `answer=`, an instance of
    that type where the answer has its form: it has, where `stop_reason` is `answered`."""
    stop_reason: StopReason
    """`answered`, or what ended the run."""
    usage: Usage
    """Tokens of root, sub-calls and children."""
    cost: float | None
    """US dollars; `None` when a model's price is not known."""
    seconds: float
    trajectory: Trajectory = field(repr=False)
    """The record: iterations, cells, sub-calls; `.save("run.ipynb")`."""
    path: Path | None = None
    """The notebook, where the run was saved."""
    message: str = ""
    """In one line, why the run ended, when that is not plain."""
    confidence: float | None = None
    """From 0 to 1: of several samples the share that gives this answer; of one run what the model stated, or what the
    probabilities of its last reply's tokens say. `None`: nothing is known."""
    unsaved: str = ""
    """In one line, what of the run could not be written to the disk, and why; empty when all of it was."""
    outputs: Mapping[str, Path] = field(default_factory=dict)
    """Where the files are that the run was to make (`outputs=`), by their names; without those that it has not made."""
    _kept: KeptKernel | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.answer if self.answer is not None else f"({no_answer(self.stop_reason, self.message)})"

    @cached_property
    def usage_by_model(self) -> dict[str, ModelUsage]:
        """Requests, tokens and US dollars of each model by its name, children included; they add up to `usage`.

        What was billed for requests that were stopped stands under `(stopped on the way)`.

        Raises
        ------
        RecordError
            The run's files can't be read any more.
        """
        from rlm_jupyter.record.export import WholeRun
        from rlm_jupyter.record.export.costs import by_model

        if self.path is None:
            return by_model(WholeRun(self.trajectory))
        return by_model(WholeRun.gather(self._files(self.path), context=False, prompts=False))

    def save(self, path: str | Path, *, replace: bool = False) -> Path:
        """Write the run as one notebook that holds everything, context and children too; returns its path.

        A run with `save=False` has kept no context: its notebook holds the record alone.

        Parameters
        ----------
        path
            The notebook. One that holds exactly this run already is left as it is.
        replace
            Replace an earlier export, which somebody may have edited since.

        Raises
        ------
        ConfigurationError
            Something else is there, or the path ends as another kind of file does.
        RecordError
            The run's files can't be read, or the folder or the disk refuses.
        """
        from rlm_jupyter.record import delivery, export

        given: object = path
        if not isinstance(given, str | Path) or not str(given):
            raise ConfigurationError(f"save takes the path of a notebook, not {quoted(given)}.")
        path = Path(path)
        if path.suffix.lower() in _OTHER_FORMS:
            raise ConfigurationError(
                f"save writes a notebook, and no {path.suffix}: save({quoted(f'{path.stem}.ipynb')}). Pages and JSON "
                "Lines are written by: jupyter rlm export RUN --to html"
            )
        path = path if path.suffix == ".ipynb" else path.with_name(f"{path.name}.ipynb")
        if self.path is None:
            run = export.WholeRun(self.trajectory)
        else:
            run = export.WholeRun.gather(self._files(self.path), outputs=True, prompts=False)
        try:
            delivery.deliver(path, export.to_notebook(run), replace=replace)
        except OSError as error:
            raise RecordError(f"{path} can't be written: {error.strerror or error}.") from None
        return path

    def _files(self, notebook: Path) -> RunFiles:
        from rlm_jupyter.record import catalog

        return catalog.in_notebook(notebook, self.trajectory.run_id)

    def ask(self, prompt: str, *, on_event: OnEvent | None = None) -> Result:
        """Put another prompt to the same kernel: its variables are still there.

        Only for a result whose kernel was kept (`keep_kernel=True`, as `%rlm` does).

        Raises
        ------
        ConfigurationError
            The kernel was not kept, or is closed.
        """
        if self._kept is None or self._kept.closed:
            raise ConfigurationError(
                "The kernel of this run is closed. Run it with keep_kernel=True to put further prompts to it."
            )
        return self._kept.ask(prompt, on_event)

    def close(self) -> None:
        """End the kept kernel, as leaving `with result:` does. Does nothing when there is none."""
        if self._kept is not None:
            self._kept.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        # a model wrote the answer: it is shown as text, never as a part of the page
        answer, facts = html.escape(str(self)), html.escape(self._facts())
        unsaved = f"<div>{html.escape(self.unsaved)}</div>" if self.unsaved else ""
        return f'<div style="white-space: pre-wrap">{answer}</div>{unsaved}<small>{facts}</small>'

    def _facts(self) -> str:
        iterations = len(self.trajectory.iterations)
        facts = [f"{iterations} iteration{'' if iterations == 1 else 's'}", f"{self.usage.total_tokens:,} tokens"]
        if self.cost:
            facts.append(f"${self.cost:.4f}")
        facts.append(f"{self.seconds:.1f} s")
        if self.stop_reason != "answered":
            facts.append(in_short(self.stop_reason, self.message))
        elif self.message:
            facts.append(self.message)
        if self.path is not None:
            facts.append(self.path.name)
        return " · ".join(facts)


def result_of(
    trajectory: Trajectory,
    path: Path | None = None,
    kept: KeptKernel | None = None,
    unsaved: object = "",
    answer_type: AnswerType | None = None,
    outputs: Mapping[str, Path] | None = None,
) -> Result:
    """Return the result that a finished record stands for.

    Parameters
    ----------
    unsaved
        What could not be written; its text is in one line.
    answer_type
        What the answer was to be: `value` is an instance of it.
    outputs
        Where its files are. Default: where it has put them.

    Raises
    ------
    RecordError
        The run has not ended.
    """
    ended = trajectory.ended
    if ended is None:
        raise RecordError(f"The run {trajectory.run_id} has not ended.")
    value = ended.value if ended.is_json else ended.answer
    if answer_type is not None and ended.answer is not None and "answer" in trajectory.started.options:
        value = answer_type.instance(value)
    return Result(
        answer=ended.answer,
        value=value,
        stop_reason=ended.stop_reason,
        usage=ended.usage,
        cost=ended.cost,
        seconds=ended.seconds,
        trajectory=trajectory,
        path=path,
        message=ended.message,
        confidence=ended.confidence,
        unsaved=str(unsaved),
        outputs={file["name"]: Path(file["path"]) for file in ended.files if file["path"]}
        if outputs is None
        else outputs,
        _kept=kept,
    )
