"""The files that a saved run is to make: its record tells their names, and not the functions that check them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlm_jupyter.record.saved_run import SavedRun
from rlm_jupyter.run.artefacts import Artefact, Outputs
from rlm_jupyter.types.errors import ConfigurationError, RecordError
from rlm_jupyter.types.events import RunEnded


def given_again(saved: SavedRun, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of `RLM` for the files of a run, as they were recorded.

    Never that files are replaced: whoever resumes it says so anew, as the record may be another's. For the same
    reason the folder is taken from a record alone whose journal is there, which one that was sent here has not.

    Parameters
    ----------
    given
        The options that it is resumed with; `None`: it is replayed, and neither checks nor puts files anywhere.

    Raises
    ------
    ConfigurationError
        One had a function that checks it, which has to be given again; or the record tells of no files.
    """
    recorded = saved.trajectory.started.options
    specs = recorded.get("outputs")
    if not isinstance(specs, list) or not specs:
        return {}
    artefacts = [Artefact.of_spec(spec) for spec in specs]
    if given is None:
        return {"outputs": artefacts}
    wanted = given.get("outputs")
    checked = [spec["name"] for spec in specs if spec.get("checked")]
    if checked and wanted is None:
        raise ConfigurationError(
            f"The check of {checked[0]} was a function, which is not in the record of this run: give the files again, "
            "outputs=[…]"
        )
    folder = _newest_folder(saved) or recorded.get("output_dir")
    if wanted is not None and not wanted:  # a fork that is to make none
        return {}
    is_own = isinstance(folder, str) and saved.journaled > 0 and Path(folder).parent.is_dir()
    return {"outputs": artefacts} | ({"output_dir": folder} if is_own else {})


def _newest_folder(saved: SavedRun) -> str:
    """Return where its files were put last: a run may have been resumed with another folder; empty: nowhere yet."""
    ends = [record for record in saved.records if isinstance(record, RunEnded)]
    paths = [file["path"] for end in ends for file in end.files if file["path"]]
    return str(Path(paths[-1]).parent) if paths else ""


def brought(saved: SavedRun) -> frozenset[str]:
    """Return the SHA-256 of the files that a run has delivered so far, as far as its record still holds them."""
    if saved.journaled <= 0:
        return frozenset()
    found = {file["sha256"] for record in saved.records if isinstance(record, RunEnded) for file in record.files}
    return frozenset(sha256 for sha256 in found if _is_kept(saved, sha256))


def _is_kept(saved: SavedRun, sha256: str) -> bool:
    try:
        saved.files.objects.get(sha256)
    except RecordError:
        return False
    return True


def check_same(recorded: Mapping[str, Any], outputs: Outputs | None, name: str) -> None:
    """Refuse to resume a run whose record tells the model of other files.

    Parameters
    ----------
    name
        Of the run.

    Raises
    ------
    ConfigurationError
        They are others.
    """
    if ([] if outputs is None else outputs.specs) != recorded.get("outputs", []):
        raise ConfigurationError(
            f"The files that {name} is to make stay the same, because its record tells the model of them: to have "
            "others, fork the run."
        )
