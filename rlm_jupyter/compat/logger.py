"""`RLMLogger`: what happened in a run, in memory and as lines for the visualizer of the reference implementation."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

from rlm_jupyter.record import catalog
from rlm_jupyter.record.export import WholeRun, to_jsonl
from rlm_jupyter.run.result import Result
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.quoted import quoted


class RLMLogger:
    """Keeps the trajectory of the last completion, and writes those of all to a file.

    Parameters
    ----------
    log_dir
        The folder of that file, made if needed. Default: no file is written. The run's notebook is saved either way.
    file_name
        How the file's name begins.

    Attributes
    ----------
    log_file_path
        The file; `None`: none is written.
    """

    def __init__(self, log_dir: str | Path | None = None, file_name: str = "rlm") -> None:
        if log_dir is not None and not isinstance(log_dir, str | Path):
            raise ConfigurationError(f"RLMLogger(log_dir=…) takes the path of a folder, not {quoted(log_dir)}.")
        self.log_dir = None if log_dir is None else str(log_dir)
        self.log_file_path: str | None = None
        if log_dir is not None:
            try:
                Path(log_dir).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(f"RLMLogger(log_dir={str(log_dir)!r}): {error.strerror or error}.") from None
            name = f"{file_name}_{datetime.now():%Y-%m-%d_%H-%M-%S}_{secrets.token_hex(4)}.jsonl"  # local time
            self.log_file_path = str(Path(log_dir) / name)
        self._run_metadata: dict[str, Any] | None = None
        self._iterations: list[dict[str, Any]] = []

    @property
    def iteration_count(self) -> int:
        """Of the last completion."""
        return len(self._iterations)

    def clear_iterations(self) -> None:
        """Forget those of the last completion; what stands in the file stays."""
        self._iterations = []

    def get_trajectory(self) -> dict[str, Any] | None:
        """Return `run_metadata` and `iterations` of the last completion; `None` before the first."""
        if self._run_metadata is None:
            return None
        return {"run_metadata": self._run_metadata, "iterations": list(self._iterations)}

    def take(self, result: Result) -> None:
        """Take in a run that has ended, with the runs that it started.

        Raises
        ------
        RecordError
            Its record can't be read.
        ConfigurationError
            The file can't be written.
        """
        run = WholeRun(result.trajectory)
        if result.path is not None:
            files = catalog.in_notebook(result.path, result.trajectory.run_id)
            run = WholeRun.gather(files, context=False, prompts=False)
        metadata, *iterations = (json.loads(line) for line in to_jsonl(run).splitlines())
        is_first = self._run_metadata is None
        self._run_metadata = {key: value for key, value in metadata.items() if key not in {"type", "timestamp"}}
        self._iterations = iterations
        if self.log_file_path is not None:
            self._write([metadata, *iterations] if is_first else iterations)

    def _write(self, lines: Iterable[dict[str, Any]]) -> None:
        path = Path(self.log_file_path or "")
        try:
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
        except OSError as error:
            raise ConfigurationError(f"The log {path} can't be written: {error.strerror or error}.") from None
