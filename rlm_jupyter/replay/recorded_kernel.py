"""Where the kernel of a saved run is started again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlm_jupyter.kernel import supervisor
from rlm_jupyter.types.errors import ConfigurationError
from rlm_jupyter.types.recorded_options import RecordedOptions


def options_of(recorded: RecordedOptions, given: dict[str, Any]) -> dict[str, Any]:
    """Return where and how the kernel is started, as it was; but no address, to which the token would go.

    Raises
    ------
    ConfigurationError
        It was on a server, and none is named again.
    """
    before = recorded.get("kernel_url")
    if before and "kernel" not in given:
        what = f"The kernel of this run was on {before}: name that server again, or another, "
        option = f"{what}by --kernel-url URL (local: this machine)."
        raise ConfigurationError(f'{what}by kernel="…" ("local": this machine).', notebook=option, command=option)
    is_elsewhere = given.get("kernel", "local") != "local"
    found: dict[str, Any] = {"kernel_name": recorded.get("kernel_name") if bool(before) is is_elsewhere else None}
    if is_elsewhere:
        return found
    cwd = recorded.get("cwd")
    found["cwd"] = cwd if cwd and Path(cwd).is_dir() else None
    found |= {name: recorded[name] for name in ("sandbox", "preload") if name in recorded}
    if supervisor.can_fork_live():
        # what earlier versions did instead, by pickling
        found["insurance"] = recorded.get("insurance", recorded.get("snapshot", False))
    return found
