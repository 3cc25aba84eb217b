"""What the connections of all kernels that are forked have in common, as the host and a template know it."""

from __future__ import annotations

from typing import Any, Final

CONNECTION: Final[dict[str, Any]] = {
    "transport": "ipc",
    **{f"{channel}_port": port for port, channel in enumerate(("shell", "iopub", "stdin", "hb", "control"), 1)},
    "signature_scheme": "hmac-sha256",
}
"""As it would stand in a connection file. Each has an `ip` beside it, with which its sockets begin, and a `key`."""
