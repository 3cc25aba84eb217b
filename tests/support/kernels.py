"""The kernels below a process, to be counted."""

from __future__ import annotations

from contextlib import suppress

import psutil

OTHERS = {"rlm-template", "rlm-supervisor", "rlm-ready"}
"""What is no kernel of a run, though its command looks like one."""


def kernels_of(process: psutil.Process | None = None) -> list[psutil.Process]:
    """Those that a run has, or a session; neither what they are forked from nor one that waits for the next run."""
    found: dict[int, psutil.Process] = {}
    for below in (process or psutil.Process()).children(recursive=True):
        with suppress(psutil.Error):  # it was gone before it was looked at
            if "rlm_jupyter.kernel.guest" in " ".join(below.cmdline()) and below.name() not in OTHERS:
                found[below.pid] = below
    above = {below.ppid() for below in found.values() if below.is_running()}
    return [below for below in found.values() if below.pid not in above]
