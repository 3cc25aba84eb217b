"""`hide`: keep this process's memory and environment, with the keys in them, from others of the same user."""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache

_PR_SET_DUMPABLE = 4
OPT_OUT = "RLM_DUMPABLE"
"""Set to 1, debuggers and profilers of the same user can attach as ever, and so can the kernels."""


@cache
def hide() -> None:
    """Close, on Linux, `/proc/PID/environ` and `mem` of this process to all but root; it dumps no core."""
    if sys.platform == "linux" and os.environ.get(OPT_OUT, "") in {"", "0"}:
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
