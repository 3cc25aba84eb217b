"""`ProtectedNames`: our names in the kernel's namespace, kept in place and out of `%who`."""

from __future__ import annotations

import keyword
import types
from typing import Any

from rlm_jupyter.kernel.guest import values

_NOT_VARIABLES = (types.ModuleType,)


class Listing(str):
    """Text that shows itself as it is when it is a cell's last expression."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class ProtectedNames:
    """Puts names into the namespace, and puts them back when the model overwrote them.

    Parameters
    ----------
    shell
        The kernel's `InteractiveShell`.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self.protected: dict[str, Any] = {}
        """Restored before every cell."""
        self.provided: dict[str, Any] = {}
        """The model may change them."""

    def protect(self, names: dict[str, Any]) -> None:
        """Set names that are restored before every cell."""
        self.protected.update(names)
        self._shell.push(names, interactive=False)

    def provide(self, names: dict[str, Any]) -> None:
        """Set names that the model may change."""
        self.provided.update(names)
        self._shell.push(names, interactive=False)

    def restore(self) -> list[str]:
        """Put back what was overwritten or deleted; returns those names."""
        namespace = self._shell.user_ns
        lost = [name for name, value in self.protected.items() if namespace.get(name, self) is not value]
        for name in lost:
            namespace[name] = self.protected[name]
        return lost

    def variables(self) -> list[tuple[str, str, str]]:
        """Name, type and size of each variable of the model's, without running any code of theirs."""
        hidden = self._shell.user_ns_hidden
        return [
            (name, values.type_name(value), values.size(value))
            for name, value in dict(self._shell.user_ns).items()
            if isinstance(name, str)
            and name.isidentifier()
            and not keyword.iskeyword(name)
            and not name.startswith("_")
            and name not in self.protected
            and (name not in self.provided or self.provided[name] is not value)
            and (name not in hidden or hidden[name] is not value)
            and not issubclass(type(value), _NOT_VARIABLES)
        ]

    def show(self) -> Listing:
        """Return the variables, a line each; `context` first."""
        lines = []
        for name in ("context", *(n for n in self.protected if n.startswith("context_"))):
            if name in self.protected:
                value = self.protected[name]
                lines.append(_line(name, values.type_name(value), values.size(value)))
        lines += [_line(*variable) for variable in self.variables()]
        return Listing("\n".join(lines) or "no variables yet")


def _line(name: str, kind: str, size: str) -> str:
    return f"{name}: {kind}" + (f" [{size}]" if size else "")
