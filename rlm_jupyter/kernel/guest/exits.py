"""`Exits`: `exit()`, `quit()` and `sys.exit()` end the cell that calls them, and never the kernel.

Models write scripts, and end them as scripts end. IPython would run what stands below an `exit()` and take the kernel
down afterwards, and would call every `SystemExit` an error. Here the exit code decides: none, or 0, is a cell that has
done its work; any other is an error, with the message that it was given.
"""

from __future__ import annotations

import re
import sys
import warnings
from typing import Any

_ADVICE = (r"To exit: use", r"IPython\.")
"""What IPython says on how to leave, which is wrong here, and where it says it."""
for _pattern, _flags in zip(_ADVICE, (re.IGNORECASE, 0), strict=True):
    re.compile(_pattern, _flags)  # `warnings` does, and finds it done in each fork of a template


class Exits:
    """Turns exits of a shell's cells into their ends.

    Parameters
    ----------
    shell
        The kernel's `InteractiveShell`.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.happened = False
        """A cell has exited without an error since this was last set to `False`."""
        self._showtraceback = shell.showtraceback
        self._replaced = {name: vars(shell)[name] for name in ("ask_exit", "showtraceback") if name in vars(shell)}
        shell.ask_exit, shell.showtraceback = self._exit, self._show
        warnings.filterwarnings("ignore", _ADVICE[0], UserWarning, _ADVICE[1])
        self._filter = warnings.filters[0]

    def settle(self, result: Any) -> None:
        """Let a cell that has exited without an error count as one that succeeded."""
        if result is not None and _is_clean(result.error_in_exec):
            result.error_in_exec = None
            self.happened = True

    def leave(self) -> None:
        """Give the shell its own ways back."""
        del self._shell.ask_exit, self._shell.showtraceback
        vars(self._shell).update(self._replaced)
        if self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]

    def _exit(self) -> None:
        # what `exit` was called with: ipykernel takes it for a wish to keep the kernel
        code, self._shell.keepkernel_on_exit = getattr(self._shell, "keepkernel_on_exit", None), None
        raise SystemExit(None if isinstance(code, bool) else code)

    def _show(self, *args: Any, **kwargs: Any) -> Any:
        if not _is_clean(sys.exc_info()[1]):
            return self._showtraceback(*args, **kwargs)
        return None


def _is_clean(error: BaseException | None) -> bool:
    return isinstance(error, SystemExit) and (error.code is None or (type(error.code) is int and error.code == 0))
