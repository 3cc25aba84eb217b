"""Linux's C library, for what Python has no function for."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

LIBC: Any = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
"""Loaded once, before a template forks: it makes classes, which touch as many pages as all else there."""
HELD: Any = ctypes.PyDLL(None, use_errno=True) if sys.platform == "linux" else None
"""The same, for a call that no other thread of Python may run beside."""
