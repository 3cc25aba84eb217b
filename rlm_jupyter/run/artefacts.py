"""`Artefact`, `Outputs`: the files that a run is to make, what they must be, and where they are put."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any, Self

from rlm_jupyter.record.blobs import Objects, digest
from rlm_jupyter.record.target_folder import Folder, is_taken, write_file
from rlm_jupyter.run.answer_type import said_with_place
from rlm_jupyter.run.output_names import check_distinct, check_name
from rlm_jupyter.types.errors import ConfigurationError, PolicyError, RecordError
from rlm_jupyter.types.events import RunEnded
from rlm_jupyter.types.keywords import names_keywords
from rlm_jupyter.types.quoted import quoted
from rlm_jupyter.types.shortened import shortened
from rlm_jupyter.types.takes import takes
from rlm_jupyter.types.values import OutputFile

MOST_BYTES = 100 * 1024**2
"""Of a file, where nothing else is said."""
_MOST_BYTES_IN_ALL = 500 * 1024**2
_MOST_FILES = 100
_REASON_CHARS = 400
_BUGS = (AttributeError, ImportError, NameError, NotImplementedError, TypeError)
"""Of a check's own code; a library that reads the file, or a column that is not in it, raises others."""

Check = Callable[[bytes], object]


@names_keywords()
@dataclass(frozen=True)
class Artefact:
    """A file that a run is to make.

    Raises
    ------
    ConfigurationError
        It can't be the name of a file in one folder, or something else is of the wrong kind.
    """

    name: str
    """What the file is called, without a folder. By its ending it is seen whether it opens: `.xlsx`, `.csv`, `.json`,
    `.pdf`, `.png`, `.jpg`, `.ipynb`, and others of their kind; of any other it is enough that it is not empty."""
    description: str = ""
    """For the model: what is to be in it."""
    check: Check | None = None
    """Called with the file's bytes. A text that it returns, unless it is empty, `False`, or what it raises is told to
    the model; an AttributeError, NameError, TypeError and their like are a bug of its own, and end the run."""
    max_bytes: int = MOST_BYTES
    """How large it may be."""

    def __post_init__(self) -> None:
        check_name(self.name)
        given: object = self.description
        if not isinstance(given, str):
            raise ConfigurationError(f"The description of {self.name} is a text, not {quoted(given)}.")
        if self.check is not None and not callable(self.check):
            raise ConfigurationError(f"The check of {self.name} is a function, not {quoted(self.check)}.")
        if self.check is not None and not takes(self.check, 1):
            raise ConfigurationError(
                f"The check of {self.name} is called with the file's bytes: give it one parameter."
            )
        if iscoroutinefunction(self.check):
            raise ConfigurationError(f"The check of {self.name} is called, and not awaited: make it a plain function.")
        most: object = self.max_bytes
        if isinstance(most, bool) or not isinstance(most, int) or most < 1:
            raise ConfigurationError(f"max_bytes of {self.name} is a whole number above 0, not {quoted(most)}.")

    @classmethod
    def of_spec(cls, spec: object) -> Self:
        """Return what a record tells of a file (`spec`), without its check.

        Raises
        ------
        ConfigurationError
            The record tells of none.
        """
        if not isinstance(spec, Mapping):
            raise ConfigurationError(f"The record of this run tells of no file that can be made: {quoted(spec)}.")
        return cls(spec.get("name", ""), spec.get("description", ""), max_bytes=spec.get("max_bytes", MOST_BYTES))

    @property
    def spec(self) -> dict[str, Any]:
        """What the record is told of it."""
        spec = {"name": self.name, "description": self.description, "max_bytes": self.max_bytes}
        return spec | ({"checked": True} if self.check is not None else {})

    def wrong_with(self, content: bytes | str) -> str:
        """Return what is wrong with a file, as the end of a sentence that begins with its name; empty: nothing.

        Parameters
        ----------
        content
            Its bytes, or what was wrong already.

        Raises
        ------
        PolicyError
            Its check returned what is no verdict, or failed by a bug.
        """
        if isinstance(content, str):
            return content
        if not content:
            return "is empty"
        if len(content) > self.max_bytes:
            return f"has {len(content):,} bytes; {self.max_bytes:,} are the most"
        from rlm_jupyter.run.files.openable import why_not  # here: it brings every format, and few runs make files

        return why_not(self.name, content) or self._own_check(content)

    def _own_check(self, content: bytes) -> str:
        if self.check is None:
            return ""
        try:
            said = self.check(content)
        except _BUGS as error:
            raise PolicyError(f"The check of {self.name} failed: {said_with_place(error)}") from error
        except BaseException as error:  # noqa: BLE001  a function of the user's, in a thread of its own
            said = f"{type(error).__name__}: {error}"
        if said is None or said is True or said == "":
            return ""
        if said is False:
            return "is not as it was asked for"
        if not isinstance(said, str):
            raise PolicyError(
                f"The check of {self.name} returns nothing or True where the file is right, and a text or False where "
                f"it is not; it returned {quoted(said)}."
            )
        return f"is not as it was asked for: {shortened(said, _REASON_CHARS)}"


@dataclass(frozen=True)
class Outputs:
    """The files that a run is to make, and where they go."""

    artefacts: tuple[Artefact, ...]
    folder: Folder
    replace: bool = False
    """Files of their names that are there are replaced; else a new one gets a number."""
    ours: frozenset[str] = frozenset()
    """SHA-256 of what the run has delivered before, which may be replaced: its record holds it, too."""

    @classmethod
    def of(cls, wanted: object, folder: object = None, replaces: object = False) -> Self | None:
        """Return the files that a user has named; `None`: none.

        Parameters
        ----------
        wanted
            Names, and `Artefact`s.
        folder
            Where they go; default: the working directory.

        Raises
        ------
        ConfigurationError
            A name can't be one, two are the same, or there is no such place.
        """
        if not isinstance(replaces, bool):
            raise ConfigurationError(f"replace is True or False, not {quoted(replaces)}.")
        if wanted is None or isinstance(wanted, cls):
            return wanted
        artefacts = tuple(_artefacts(wanted))
        if not artefacts:
            return None
        if folder is not None and not isinstance(folder, str | Path):
            raise ConfigurationError(f"output_dir is the path of a folder, not {quoted(folder)}.")
        check_distinct([one.name for one in artefacts])
        return cls(artefacts, Folder.of(Path(folder or ".")), replaces)

    @property
    def specs(self) -> list[dict[str, Any]]:
        """What the record is told of them, each as `Artefact.spec`."""
        return [one.spec for one in self.artefacts]

    @property
    def most_bytes(self) -> int:
        """How many they may have together: 500 MiB, unless one alone may have more."""
        return max(_MOST_BYTES_IN_ALL, *(one.max_bytes for one in self.artefacts))

    def claimed(self, ours: frozenset[str] = frozenset()) -> Self:
        """Return the same as a run begins: its folder is there, and has no files of these names but its own.

        Parameters
        ----------
        ours
            SHA-256 of what it has delivered before, where it is resumed.

        Raises
        ------
        ConfigurationError
            It has, and they are not to be replaced; or the folder can't be made.
        """
        folder = self.folder.made()
        taken = [one.name for one in self.artefacts if is_taken(folder, one.name, ours)]
        if taken and not self.replace:
            there = f"{folder.path / taken[0]} is there already: "
            by_option = f"{there}name another folder by --output-dir, or add --replace."
            raise ConfigurationError(
                f"{there}name another folder for the files (output_dir=…), or replace it (replace=True).",
                notebook=by_option,
                command=by_option,
            )
        return replace(self, folder=folder, ours=ours)

    def wrong(self, contents: Mapping[str, bytes | str]) -> dict[str, str]:
        """Return what is wrong with files, by their names, a line each; those that are as asked for are not in it.

        Parameters
        ----------
        contents
            Of each file by its name: its bytes, or what was wrong already.
        """
        found = ((one.name, one.wrong_with(contents[one.name])) for one in self.artefacts)
        return {name: " ".join(f"{name} {wrong}".split()) for name, wrong in found if wrong}

    def put(self, contents: Mapping[str, bytes], note: Callable[[str], None]) -> tuple[OutputFile, ...]:
        """Put files where the caller wants them; what can't be written is noted in a line.

        Returns
        -------
        tuple
            What the record keeps of them.
        """
        files = []
        for name, content in contents.items():
            path = ""
            try:
                placed = write_file(self.folder, name, content, replaces=self.replace, ours=self.ours)
                if placed.name != name:
                    note(f"{name} was there already, so the file is saved as {placed.name}")
                path = str(placed)
            except OSError as error:
                note(f"{name} could not be written to {self.folder.path}: {error.strerror or error}")
            files.append(OutputFile(name=name, sha256=digest([content]), nbytes=len(content), path=path))
        return tuple(files)

    def again(self, ended: RunEnded, objects: Objects, note: Callable[[str], None]) -> dict[str, Path] | None:
        """Put the files of a recorded run there once more; `None`: they are not all kept, or not as asked for.

        Parameters
        ----------
        objects
            Where the run keeps them.
        note
            Told in a line what can't be written.

        Raises
        ------
        ConfigurationError
            Their folder can't be made.
        """
        try:
            contents = {file["name"]: objects.get(file["sha256"]) for file in ended.files}
        except RecordError:
            return None
        asked = {one.name: one for one in self.artefacts}
        if ended.stop_reason == "answered" and contents.keys() != asked.keys():
            return None
        if any(name not in asked or asked[name].wrong_with(content) for name, content in contents.items()):
            return None
        agreed = replace(self, folder=self.folder.made(), replace=self.replace and ended.stop_reason == "answered")
        files = agreed.put(contents, note)
        return {file["name"]: Path(file["path"]) for file in files if file["path"]}


def _artefacts(wanted: object) -> list[Artefact]:
    if isinstance(wanted, str | Artefact | os.PathLike):
        wanted = [wanted]
    if not isinstance(wanted, Sequence) or isinstance(wanted, bytes):
        raise ConfigurationError(f'outputs is a list of names of files, not {quoted(wanted)}: outputs=["plot.png"].')
    if len(wanted) > _MOST_FILES:
        raise ConfigurationError(f"outputs names {len(wanted):,} files; {_MOST_FILES} are the most.")
    return [_artefact(one) for one in wanted]


def _artefact(one: object) -> Artefact:
    if isinstance(one, Artefact):
        return one
    if isinstance(one, os.PathLike):
        one = os.fspath(one)
    if not isinstance(one, str):
        raise ConfigurationError(f"outputs has names of files and Artefact(…), not {quoted(one)}.")
    return Artefact(one)
