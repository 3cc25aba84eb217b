"""`Snapshots`: the model's variables as they are now, written out while the kernel goes on.

A forked child does it: it has the variables of this very moment, whatever the next cell changes meanwhile, and what
goes wrong in it (a class that never comes to an end of being pickled, a crash, too much memory) is the child's end
and not the kernel's. The kernel waits for the fork alone, a few milliseconds. What the child wrote goes to the host,
which keeps it, reads nothing of it, and hands it to the next kernel.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import mmap
import os
import re
import struct
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from rlm_jupyter.kernel.guest import pickling
from rlm_jupyter.kernel.guest.codec import WireMessage
from rlm_jupyter.kernel.guest.snapshot_process import Child, Clock, settle, uninterrupted

_LENGTH = struct.Struct("!I")
_NONE = 2**32 - 1
_REASON_CHARS = 100
_OF_IPYTHON = re.compile(r"_+|_i+|_i?\d+|_[doi]h|_exit_code|__.*__")
_NOT_KEPT = frozenset({"answer", "history"})
"""Given to each prompt anew."""
_PLAIN = (str, bytes, int, float, bool, types.NoneType)


@dataclass(slots=True)
class Written:
    """What is in a snapshot besides its pickles."""

    order: list[str] = field(default_factory=list)
    """All names, as they stand in the namespace."""
    groups: list[tuple[list[str], int]] = field(default_factory=list)
    """Names, and the bytes of their pickle; one after the other."""
    same: dict[str, str] = field(default_factory=dict)
    """Variables that are one of ours, such as `context`, with its name."""
    modules: dict[str, str] = field(default_factory=dict)
    """Imported again, by the name that they have in the namespace."""
    submodules: list[str] = field(default_factory=list)
    lent: list[str] = field(default_factory=list)
    """Names that the host gave, and that don't count as the model's."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Variables that can't be kept, and why."""
    files: list[str] = field(default_factory=list)
    """What the code of the cells calls its file: functions that are defined there may call FINAL."""


class Snapshots:
    """Writes snapshots, one at a time, and reads one.

    Parameters
    ----------
    shell
        The kernel's `InteractiveShell`.
    kept, lent
        Names of ours, and those that the host gave, with their values.
    files
        File names of the cells' code.
    send
        Sends a message to the host: type, content, buffers.
    """

    def __init__(
        self,
        shell: Any,
        kept: Mapping[str, Any],
        lent: dict[str, Any],
        files: set[str],
        send: Callable[[str, dict[str, Any], list[bytes]], None],
    ) -> None:
        self._shell = shell
        self._kept, self._lent, self._files = kept, lent, files
        self._send = send
        self._is_writing = False
        self._barred: dict[str, int] = {}
        """Variables over which a child has died, by their identity."""
        self._data = memoryview(b"")
        self._only: list[str] | None = None
        self._report: dict[str, Any] = {}

    def serve(self, message: WireMessage) -> dict[str, Any]:
        """Answer a request of the host (control thread)."""
        asked = message.content
        match message.type:
            case "rlm_snapshot":
                return {"begun": self._begin(asked["number"], asked["nbytes"], asked["seconds"])}
            case "rlm_restore":
                self._data, self._only = message.buffers[0], asked["only"]
                return {}
        return self._report

    def _begin(self, number: int, nbytes: int, seconds: float) -> bool:
        """Fork, and return at once: `rlm_snapshot` brings what came of it. Not while the last one is written.

        Parameters
        ----------
        number
            What the host calls it.
        nbytes, seconds
            The most that it may take.
        """
        if self._is_writing:
            return False
        pickling.load_pickler()  # once, and not in each child
        variables = self._variables()
        progress = mmap.mmap(-1, _LENGTH.size)  # shared with the child
        reads, writes = os.pipe()
        try:
            with uninterrupted():
                child = os.fork()
                if child == 0:
                    os.close(reads)
                    self._be_child(writes, variables, progress, nbytes, seconds)
        except OSError:
            os.close(reads)
            raise
        finally:
            os.close(writes)
        self._is_writing = True
        child_of = Child(child, reads, progress, [*variables], time.monotonic() + 1.5 * seconds)
        threading.Thread(target=self._collect, args=(number, child_of), daemon=True).start()
        return True

    def restore(self) -> None:
        """Bring back the variables that the host has handed over (main thread); no error is raised."""
        data, self._data = self._data, memoryview(b"")
        self._report = report = {"modules": [], "failed": {}, "problem": ""}
        try:
            written, start = _head(data)
            self._restore(written, data[start:], report)
        except BaseException as error:  # noqa: BLE001  an interrupt too: what is back by then is back
            report["problem"] = _said(error)

    def _restore(self, written: Written, data: memoryview, report: dict[str, Any]) -> None:
        space = self._shell.user_ns
        self._files.update(written.files)
        report["failed"] = dict(written.skipped)
        for name, module in written.modules.items():
            try:
                space[name] = importlib.import_module(module)
                report["modules"].append(name)
            except Exception as error:  # noqa: BLE001  any code can be in a module
                report["failed"][name] = _said(error)
        for module in written.submodules:
            if module not in sys.modules:
                with contextlib.suppress(Exception):
                    importlib.import_module(module)
        found: dict[str, Any] = {name: self._kept[ours] for name, ours in written.same.items() if ours in self._kept}
        start = 0
        for names, length in written.groups:
            try:
                values = pickling.read(space, self._kept, data[start : start + length])
                found.update((name, values[name]) for name in names)
            except Exception as error:  # noqa: BLE001  what a class of the model's does
                report["failed"].update(dict.fromkeys(names, _said(error)))
            start += length
        wanted = found.keys() if self._only is None else found.keys() & set(self._only)
        for name in filter(wanted.__contains__, written.order):
            space[name] = found[name]
            if name in written.lent:
                self._lent[name] = found[name]

    def _variables(self) -> dict[str, Any]:
        """List the model's variables: small ones first, so that one that takes long costs fewer others."""
        hidden = self._shell.user_ns_hidden
        found = {
            name: value
            for name, value in dict(self._shell.user_ns).items()
            if isinstance(name, str)
            and name not in self._kept
            and name not in _NOT_KEPT
            and not _OF_IPYTHON.fullmatch(name)
            and (name not in hidden or hidden[name] is not value)
        }
        return dict(sorted(found.items(), key=lambda item: not isinstance(item[1], _PLAIN)))

    def _be_child(self, pipe: int, variables: dict[str, Any], progress: mmap.mmap, nbytes: int, seconds: float) -> None:
        """Write it all, and end; nothing is left behind."""
        try:
            settle()
            with open(pipe, "wb", closefd=False) as file:
                for piece in self._written(variables, progress, nbytes, Clock(seconds)):
                    file.write(piece)
        except BaseException:  # noqa: BLE001  nobody is above who could take it
            os._exit(1)
        os._exit(0)

    def _written(self, variables: dict[str, Any], progress: mmap.mmap, nbytes: int, clock: Clock) -> list[bytes]:
        in_order = [name for name in self._shell.user_ns if name in variables]
        written = Written(order=in_order, files=[*self._files], lent=[name for name in self._lent if name in variables])
        ours = {id(value): name for name, value in self._kept.items()}
        pickles = pickling.Pickles(self._shell.user_ns, self._kept, nbytes)

        def attempt(names: list[str], act: Callable[[], Any]) -> Any:
            try:
                with clock:
                    return act()
            except pickling.TooLargeError:
                reason = f"larger than what is left of {nbytes / 2**20:,.0f} MiB"
            except BaseException as error:  # noqa: BLE001  a class of the model's may raise anything
                reason = _said(error)
            written.skipped.update(dict.fromkeys(names, reason))
            return None

        for place, (name, value) in enumerate(variables.items()):
            progress[:] = _LENGTH.pack(place)
            if type(value) is types.ModuleType:
                written.modules[name] = value.__name__
            elif id(value) in ours:
                written.same[name] = ours[id(value)]
            elif self._barred.get(name) == id(value):
                written.skipped[name] = "it can't be pickled"
            else:
                attempt([name], partial(pickles.add, name, value))
        progress[:] = _LENGTH.pack(_NONE)
        written.submodules = [*_submodules({module.partition(".")[0] for module in written.modules.values()})]
        pieces: list[bytes] = []
        for names in pickles.groups():
            if (group := attempt(names, partial(pickles.pickle, names))) is not None:
                written.groups.append((names, sum(map(len, group))))
                pieces += group
        head = json.dumps({name: getattr(written, name) for name in Written.__slots__}).encode()
        return [_LENGTH.pack(len(head)), head, *pieces]

    def _collect(self, number: int, child: Child) -> None:
        """Pass on what the child writes, once it is whole; a child that does not come to an end is ended."""
        pieces = [*child.read()]
        code = child.end()
        self._is_writing = False
        if code == 0:
            self._send("rlm_snapshot", {"number": number, "written": True}, pieces)
            return
        (place,) = _LENGTH.unpack(child.progress[:])
        name = child.names[place] if place < len(child.names) else ""
        value = self._shell.user_ns.get(name)
        # the next one does without it
        is_news = value is not None and self._barred.get(name) != id(value)
        if is_news:
            self._barred[name] = id(value)
        self._send("rlm_snapshot", {"number": number, "written": False, "again": is_news}, [])


def _submodules(packages: set[str]) -> Iterator[str]:
    for name, module in list(sys.modules.items()):
        if "." in name and name.partition(".")[0] in packages and module is not None:
            yield name


def _head(data: memoryview) -> tuple[Written, int]:
    (length,) = _LENGTH.unpack(data[: _LENGTH.size])
    start = _LENGTH.size + length
    return Written(**json.loads(bytes(data[_LENGTH.size : start]))), start


def _said(error: BaseException) -> str:
    try:
        text = str(error) or type(error).__name__
    except Exception:  # noqa: BLE001  an error's text is the model's code too
        text = type(error).__name__
    text = " ".join(text.split())
    return text if len(text) <= _REASON_CHARS else f"{text[:_REASON_CHARS]}…"
