"""`Together`: several runs as one file of lines, or as traces that are sent; each without keys and home folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_jupyter.record.export.bundle import WholeRun
from rlm_jupyter.record.export.write import TRAINING, Sent, deliver, target, unfit, written
from rlm_jupyter.record.redaction import Redactor
from rlm_jupyter.types.errors import ConfigurationError, RecordError

if TYPE_CHECKING:
    from rlm_jupyter.record.store import RunFiles

_LINES = ("jsonl", "otel", *TRAINING)


@dataclass
class Together:
    """Runs that are exported as one.

    Parameters
    ----------
    runs
        Each with the score of its answer, where it is known.
    form
        One of lines: `jsonl`, `otel`, `atif`, `verifiers` or `sft`.
    redact
        Take out keys, home folders and user names.
    prompts
        Export the further prompts to a run's kernel, too.

    Raises
    ------
    ConfigurationError
        The form has room for one run alone.
    """

    runs: Sequence[tuple[RunFiles, float | None]]
    form: str
    redact: bool = True
    prompts: bool = True
    count: int = field(default=0, init=False)
    """How many runs were exported so far."""
    _places: int = field(default=0, init=False)
    _left_out: dict[str, int] = field(default_factory=dict, init=False)
    """How many were not, by the reason."""

    def __post_init__(self) -> None:
        if self.form not in _LINES:
            forms = f"{', '.join(_LINES[:-1])} or {_LINES[-1]}"
            raise ConfigurationError(f"--to {self.form} is for one run: several are written as {forms}.")

    def write(
        self, source: Path, output: str | Path | None, *, replace: bool, out: Callable[[bytes], object] | None
    ) -> Sent:
        """Write them as one file; named after the file `source` that lists them, where `output` names none.

        Raises
        ------
        ConfigurationError
            The file can't be written, or exists and is not to be replaced; none of the runs can be exported.
        """
        name = f"{source.stem}.{self.form}.jsonl"
        path = None if out is not None else target(name, self.form, output, source)
        content = b"".join(written(run, self.form, score) for run, score in self)
        self._check()
        return Sent(deliver(content, path, output, replace=replace, out=out), self.said)

    def send(self) -> tuple[int, tuple[str, ...]]:
        """Send them as traces, by the SDK of OpenTelemetry; return how many spans there were, and what is to be said.

        Raises
        ------
        ConfigurationError
            The SDK is not there, or nobody took them; none of the runs can be exported.
        """
        from rlm_jupyter.record.export import otlp

        sent = otlp.send(run for run, _ in self)
        self._check()
        return sent, self.said

    def __iter__(self) -> Iterator[tuple[WholeRun, float | None]]:
        """Yield the runs that can be exported, each read when it is asked for."""
        for files, score in self.runs:
            try:
                run = WholeRun.gather(files, context=False, prompts=self.prompts)
            except RecordError:
                self._leave_out("can't be read")
                continue
            if self.form in TRAINING and (why := unfit(run)):
                self._leave_out(why.partition(",")[0])
                continue
            if self.redact:
                redactor = Redactor.of_environment()
                run = run.redacted(redactor)
                self._places += redactor.places
            self.count += 1
            yield run, score

    @property
    def said(self) -> tuple[str, ...]:
        """What is to be said of it, in sentences."""
        runs = f"{self.count:,} run{'' if self.count == 1 else 's'}"
        removed = f"keys, home folders and user names in {self._places:,} place{'' if self._places == 1 else 's'}"
        told = "Nothing was removed: keys and paths stand there as they were."
        if self.redact:
            told = f"Removed: {removed}." if self._places else "Nothing to redact was found."
        left_out = (f"Left out: {count:,}, each of which {why}." for why, count in self._left_out.items())
        return (f"Exported: {runs}.", told, *left_out)

    def _leave_out(self, why: str) -> None:
        self._left_out[why] = self._left_out.get(why, 0) + 1

    def _check(self) -> None:
        if not self.count:
            reasons = "; ".join(
                f"{'' if count == 1 else 'each of '}{count:,} {why}" for why, count in self._left_out.items()
            )
            raise ConfigurationError(f"None of the runs can be exported: {reasons}.")
