"""What the user of `--here` is told, once in a session."""

from __future__ import annotations

from typing import Any

from rlm_jupyter.frontends.display import html as fragments

_SAID = "_rlm_here_said"
"""The attribute of a shell whose user has been told."""
_RIGHTS = (
    "With --here the model's code runs in this notebook's own kernel: it has your rights, sees and changes your "
    "variables and files, and there is no sandbox. Without --here it gets a kernel of its own."
)


def say_once(shell: Any) -> None:
    """Tell the user, the first time in a session, what rights the model's code has."""
    if not getattr(shell, _SAID, False):
        setattr(shell, _SAID, True)
        html = fragments.block(fragments.note(_RIGHTS))
        shell.display_pub.publish({"text/html": html, "text/plain": _RIGHTS})
