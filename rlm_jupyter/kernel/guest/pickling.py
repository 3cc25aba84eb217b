"""Variables as pickles that another kernel of the same run can read, and the way back.

What a cell defines lives in `__main__`, which pickle only names. Classes are written out by cloudpickle, where the
kernel's Python has it. Functions are written out here: cloudpickle would give each a copy of the variables that it
uses, `context` and `llm_query` included, and the copy would never change again; here a function comes back into the
namespace of the kernel that it is read in, and sees the variables there, as it did before.
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

_IMMUTABLE = (
    str,
    bytes,
    int,
    float,
    complex,
    bool,
    tuple,
    frozenset,
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    types.NoneType,
)
"""Two variables that hold the same one of these share nothing that can change."""
_namespace: dict[str, Any] = {}
_ours: Mapping[str, Any] = {}


class TooLargeError(Exception):
    """A variable takes more room than there is."""


class Room:
    """A file for a pickler, in memory, of a limited size."""

    def __init__(self, nbytes: int) -> None:
        self._left = nbytes
        self.pieces: list[bytes] = []

    def write(self, data: Any) -> int:
        """Take a piece; a large array comes in one, which is looked at before it is copied."""
        piece = memoryview(data)
        self._left -= piece.nbytes
        if self._left < 0:
            raise TooLargeError
        self.pieces.append(bytes(piece))
        return piece.nbytes

    @property
    def nbytes(self) -> int:
        """What it holds."""
        return sum(map(len, self.pieces))


@cache
def _pickler() -> Any:
    base: Any = pickle.Pickler
    try:
        import cloudpickle

        base = cloudpickle.Pickler
    except Exception:  # noqa: BLE001  whatever that Python has under the name
        is_plain = True  # classes of cells, and what is of them, are then left out
    else:
        is_plain = False

    class NamespacePickler(base):
        """Writes functions of the namespace without the namespace."""

        def __init__(self, room: Room, namespace: dict[str, Any], ours: Mapping[int, str]) -> None:
            super().__init__(room, protocol=5)
            self._space, self._ours = namespace, ours

        def reducer_override(self, value: Any) -> Any:
            if type(value) is types.FunctionType:
                if (name := self._ours.get(id(value))) is not None:
                    return one_of_ours, (name,)
                if value.__globals__ is self._space:
                    return _written(value)
            if isinstance(value, io.IOBase | memoryview):  # cloudpickle has their content, which is something else
                raise TypeError(f"cannot pickle {type(value).__name__!r} object")
            return super().reducer_override(value) if not is_plain else NotImplemented

    return NamespacePickler


def load_pickler() -> None:
    """Import what pickling takes, once."""
    _pickler()


class Pickles:
    """Pickles variables one by one, and together those that share something that can change.

    Parameters
    ----------
    namespace
        The kernel's `user_ns`.
    ours
        Values of ours that variables may refer to, such as `llm_query`, by name.
    nbytes
        The room for all of them.
    """

    def __init__(self, namespace: dict[str, Any], ours: Mapping[str, Any], nbytes: int) -> None:
        self._namespace = namespace
        self._names = {id(value): name for name, value in ours.items()}
        self._left = nbytes
        self._pieces: dict[str, Room] = {}
        self._group: dict[str, str] = {}
        """Of each name, another that it shares something with; of the first of a group, itself."""
        self._owners: dict[int, tuple[str, Any]] = {}
        """Who holds what; the values are kept, so that no identity is given to another meanwhile."""

    def add(self, name: str, value: Any) -> None:
        """Pickle one.

        Raises
        ------
        Exception
            It can't be pickled, or (`TooLargeError`) not in the room that is left.
        """
        room = Room(self._left)
        pickler = _pickler()(room, self._namespace, self._names)
        pickler.dump({name: value})
        self._left -= room.nbytes
        self._pieces[name], self._group[name] = room, name
        for identity, (_, held) in pickler.memo.copy().items():
            if not isinstance(held, _IMMUTABLE) and not self._is_passing(held):
                owner, _ = self._owners.setdefault(identity, (name, held))
                self._group[self._first(name)] = self._first(owner)

    def groups(self) -> list[list[str]]:
        """Return the names, those together that share something."""
        members: dict[str, list[str]] = {}
        for name in self._pieces:
            members.setdefault(self._first(name), []).append(name)
        return list(members.values())

    def pickle(self, names: list[str]) -> list[bytes]:
        """Return the pickle of a dict with the variables of a group, in pieces.

        Raises
        ------
        Exception
            Together they can't be pickled.
        """
        if len(names) == 1:
            return self._pieces[names[0]].pieces
        room = Room(sum(self._pieces[name].nbytes for name in names))
        _pickler()(room, self._namespace, self._names).dump({name: self._namespace[name] for name in names})
        return room.pieces

    def _first(self, name: str) -> str:
        while self._group[name] != name:
            name = self._group[name]
        return name

    def _is_passing(self, held: Any) -> bool:
        """Whether nothing is lost with its identity: functions that keep nothing, and NumPy's types."""
        if type(held) is types.FunctionType:
            cells = [content for cell in held.__closure__ or () for content in _content(cell)]
            has_state = held.__dict__ or not all(isinstance(content, type) for content in cells)
            return held.__globals__ is not self._namespace or not has_state
        dtype = getattr(sys.modules.get("numpy"), "dtype", None)
        return isinstance(dtype, type) and isinstance(held, dtype)


def read(namespace: dict[str, Any], ours: Mapping[str, Any], data: Any) -> dict[str, Any]:
    """Return the variables of a pickle; runs code of the model's, so only a kernel that has it may call this."""
    global _namespace, _ours
    _namespace, _ours = namespace, ours
    values: dict[str, Any] = pickle.loads(data)
    return values


# what stands in the pickles, and is called as they are read


def one_of_ours(name: str) -> Any:
    """Return a function of ours, in the kernel that this runs in."""
    return _ours[name]


def made(code: bytes, name: str, cells: int) -> types.FunctionType:
    """Return a function as far as it refers to nothing."""
    closure = tuple(types.CellType() for _ in range(cells)) or None
    return types.FunctionType(marshal.loads(code), _namespace, name, None, closure)


def filled(function: types.FunctionType, state: dict[str, Any]) -> None:
    """Fill in the rest of a function, which may refer to the function itself."""
    for cell, content in zip(function.__closure__ or (), state.pop("cells"), strict=True):
        if content:
            cell.cell_contents = content[0]
    function.__dict__.update(state.pop("attributes"))
    for name, value in state.items():
        setattr(function, name, value)


def _written(function: types.FunctionType) -> tuple[Callable[..., Any], *tuple[Any, ...]]:
    cells = function.__closure__ or ()
    state: dict[str, Any] = {
        name: getattr(function, name)
        for name in ("__defaults__", "__kwdefaults__", "__qualname__", "__module__", "__doc__")
    }
    try:
        state["__annotations__"] = dict(function.__annotations__)
    except Exception:  # noqa: BLE001  newer Pythons evaluate them now, and a name in them may not be there
        state["__annotations__"] = {}
    state["attributes"] = dict(function.__dict__)
    state["cells"] = tuple(_content(cell) for cell in cells)
    code = marshal.dumps(function.__code__)
    return made, (code, function.__name__, len(cells)), state, None, None, filled


def _content(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # nothing was assigned to it yet
        return ()
