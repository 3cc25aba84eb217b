"""The files that a saved run is to make: its record tells their names, and not the functions that check them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlm_jupyter.run.outputs import Outputs
from rlm_jupyter.types.errors import ConfigurationError


def given_again(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `RLM` for the files of a run, as they were recorded.

    Parameters
    ----------
    recorded
        The options in its record.
    given
        The options that it is gone on with.

    Raises
    ------
    ConfigurationError
        One had a function that checks it, which has to be given again.
    """
    specs = recorded.get("outputs")
    if not specs:
        return {}
    checked = [spec["name"] for spec in specs if spec.get("checked")]
    if checked and given.get("outputs") is None:
        raise ConfigurationError(
            f"The check of {checked[0]} was a function, which is not in the record of this run: give the files again, "
            "outputs=[…]"
        )
    folder = recorded.get("output_dir")
    is_there = folder and Path(folder).parent.is_dir()
    options = {"outputs": specs, "replace": recorded.get("replace", False)}
    return options | ({"output_dir": folder} if is_there else {})


def check_same(recorded: Mapping[str, Any], outputs: Outputs | None, name: str) -> None:
    """Refuse to go on with a run whose record tells the model of other files.

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
