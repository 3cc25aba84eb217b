"""Where runs live: `NAME.ipynb`, what people open, and beside it `NAME.rlm/` with the journal and the objects.

Long because all that may be done with a run's files stands here.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self

from rlm_jupyter.record import journal, notebook
from rlm_jupyter.record.blobs import CHILDREN, PROMPTS, Objects
from rlm_jupyter.record.slug import slug
from rlm_jupyter.types.errors import ConfigurationError, RecordError
from rlm_jupyter.types.here import here
from rlm_jupyter.types.values import PackedContext

FOLDER = "rlm_runs"
"""In the working directory: where runs go that nobody gave a place."""


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of one run. Made by `create` for a new one, by `find` for one that exists.

    The prompts of one kernel are one record: the first is the run `NAME`, the second `NAME.2`, with a journal of its
    own in `NAME.rlm/prompts/2.rlm`; all stand in the one notebook `NAME.ipynb`.
    """

    notebook: Path
    """Names the run, and holds it; a further prompt stands in `shown`."""
    wanted: Path | None = field(default=None, compare=False)
    """The notebook that was named by its path, where another run has it, and this run got another name."""

    @property
    def name(self) -> str:
        """What notebook and folder are called, without the suffix; of a further prompt `NAME.2`."""
        root = self.root
        return self.notebook.stem if root is self else f"{root.name}.{self.notebook.stem}"

    @property
    def prompt_name(self) -> str:
        """What names this prompt alone: `NAME.1` of the first, where there are further ones."""
        return f"{self.name}.1" if self.root is self and len(self.prompts()) > 1 else self.name

    @property
    def folder(self) -> Path:
        """`NAME.rlm`, beside the notebook."""
        return self.notebook.with_suffix(".rlm")

    @property
    def root(self) -> RunFiles:
        """The first prompt of its kernel; most runs are that themselves."""
        folder = self.notebook.parent
        inside = folder.name == PROMPTS and folder.parent.suffix == ".rlm"
        return RunFiles(folder.parent.with_suffix(".ipynb"), self.wanted) if inside else self

    @property
    def shown(self) -> Path:
        """The notebook that it stands in."""
        return self.root.notebook

    @property
    def number(self) -> int:
        """Which prompt of its kernel it is, from 1 on, in the order in which they were asked."""
        return 1 if self.root is self else int(self.notebook.stem)

    def prompt(self, number: int) -> RunFiles:
        """Return where one of the prompts to its kernel is, or would be."""
        root = self.root
        return root if number == 1 else RunFiles(root.folder / PROMPTS / f"{number}.ipynb")

    def prompts(self) -> list[RunFiles]:
        """Return the runs that stand in its notebook, in order: itself, and the other prompts of its kernel."""
        root = self.root
        found = {int(path.stem) for path in _folders(root.folder / PROMPTS) if path.stem.isdecimal()}
        if not root.journal.is_file():  # of an exported run there is the notebook alone
            found |= notebook.run_ids(root.notebook).keys() - {1}
        return [root, *(root.prompt(number) for number in sorted(found))]

    @property
    def children(self) -> Path:
        """The folder of the runs that it starts, which all depths share."""
        is_child = self.notebook.parent.name == CHILDREN and self.notebook.parent.parent.suffix == ".rlm"
        return self.notebook.parent if is_child else self.folder / CHILDREN

    @property
    def journal(self) -> Path:
        """The journal's path."""
        return self.folder / journal.NAME

    @property
    def objects(self) -> Objects:
        """The large things of the run; a child's are those of its root."""
        return Objects.of_run(self.folder)

    @classmethod
    def create(cls, prompt: str, path: str | Path | None = None, *, where: str | Path | None = None) -> Self:
        """Claim the place of a new run; nobody else gets the same.

        Parameters
        ----------
        prompt
            Names the run: `YYYYMMDD-HHMMSS-` and its first words; `-2`, `-3`… when that is taken.
        path
            The notebook, or a folder to put it into (see `is_folder`), made if needed (see `check_save_path`). Where a
            run has that name, the new one gets `NAME-2`, `NAME-3`…: files of a run are never moved, because its path
            was returned. A notebook that is no run is never touched.
        where
            The folder that `rlm_runs` is in; the working directory when left out.

        Raises
        ------
        ConfigurationError
            The folder can't be written or made, or the notebook there is not a run's.
        """
        # absolute, because the working directory may change while the run goes on
        target = here() / (Path(where or ".") / FOLDER if path is None else path)
        by_name = path is not None and not is_folder(path)
        if not by_name:
            name = f"{datetime.now():%Y%m%d-%H%M%S}-{slug(prompt)}"  # local time: it is for people
            wanted = target / f"{name}.ipynb"
        else:
            wanted = as_notebook(target)
        if path is not None:
            check_save_path(path)
        with _writable(wanted.parent):
            wanted.parent.mkdir(parents=True, exist_ok=True)
            files = cls(wanted)
            for number in itertools.count(2):
                if files._claim():
                    break
                files = cls(wanted.with_name(f"{wanted.stem}-{number}.ipynb"), wanted=wanted if by_name else None)
        return files

    def child(self, prompt: str = "") -> RunFiles:
        """Claim the place of a run that this one starts: in its folder, flat for all depths.

        Raises
        ------
        ConfigurationError
            The folder can't be written.
        """
        folder = self.children
        words = f"-{slug(prompt)}" if prompt else ""
        with _writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            while True:
                files = RunFiles(folder / f"{secrets.token_hex(4)}{words}.ipynb")
                if files._claim():
                    return files

    def next_prompt(self) -> RunFiles:
        """Claim the place of a further prompt to its kernel.

        Raises
        ------
        ConfigurationError
            The folder can't be written.
        """
        root = self.root
        folder = root.folder / PROMPTS
        with _writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for number in itertools.count(self.prompts()[-1].number + 1):
                files = root.prompt(number)
                if files._claim():
                    return files
        raise AssertionError  # the count never ends

    @property
    def renamed(self) -> str:
        """One line that says why the run is not where it was to be saved; empty where it is."""
        if self.wanted is None or self.wanted == self.notebook:
            return ""
        return f"{self.wanted.name} is the notebook of another run, so this run is saved in {self.notebook.name}"

    def new_id(self) -> str:
        """Return a run id that says where the run is and is never used again, even when this name is."""
        return f"{self.name}-{secrets.token_hex(3)}"

    def put(self, content: bytes | Iterable[bytes | memoryview]) -> str:
        """Keep something large; returns its SHA-256 (see `Objects.put`)."""
        return self.objects.put(content)

    def get(self, sha256: str) -> bytes:
        """Return what `put` kept, checked (see `Objects.get`)."""
        return self.objects.get(sha256)

    async def store_context(self, packed: PackedContext) -> None:
        """Keep the context, in a thread: writing a large one takes seconds.

        Raises
        ------
        RecordError
            The folder or the disk refuses.
        """
        await asyncio.to_thread(self.objects.put_context, packed)

    def load_context(self) -> PackedContext:
        """Return the run's context: from the objects, or a small one from the notebook. Nothing is unpickled.

        Raises
        ------
        RecordError
            It is in neither place; names file and hash.
        """
        started = journal.read_first(self.journal) or notebook.read_started(self.shown, self.number)
        try:
            return self.objects.get_context(started.context)
        except RecordError:
            with contextlib.suppress(RecordError):
                inline = notebook.read_context(self.shown, self.number)
                if inline is not None and inline.info.sha256 == started.context.sha256:
                    return inline
            raise

    def exists(self) -> bool:
        """Return whether there is a run: a journal, or a notebook of ours."""
        return self.journal.is_file() or notebook.is_run(self.shown, self.number)

    def _claim(self) -> bool:
        if self.notebook.exists():
            return False
        try:
            self.folder.mkdir()
        except FileExistsError:
            return False
        return True


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.suffix == ".rlm"]
    except OSError:
        return []


def is_folder(save: str | Path) -> bool:
    """Return whether a place to save a run in is a folder: one that exists, or a text that ends with a slash."""
    return str(save).endswith(("/", os.sep)) or Path(save).is_dir()


def check_save_path(save: str | Path | bool) -> None:
    """Refuse a place that no run can be saved in; nothing is made.

    Parameters
    ----------
    save
        As for `RLM`.

    Raises
    ------
    ConfigurationError
        It is a notebook that is no run's, or more than its last folder is missing: then it is likely to be mistyped.
    """
    if isinstance(save, bool):
        return
    path = Path(save).absolute()
    folder = path if is_folder(save) else path.parent
    if not is_folder(save) and (named := as_notebook(path)).exists() and not notebook.is_run(named):
        raise ConfigurationError(f"{named} is not the notebook of a run, so it is not replaced. Name another path.")
    with _writable(folder):
        is_there = folder.parent.exists()
    if not is_there:
        raise ConfigurationError(
            f"There is no folder {folder.parent} to save the run in: make it, or name another place."
        )


def folder_of(save: str | Path | bool) -> Path | None:
    """Return the folder that runs are saved in; `None` for the default one.

    Parameters
    ----------
    save
        As for `RLM`, and not `False`.
    """
    if isinstance(save, bool):
        return None
    return Path(save) if is_folder(save) else Path(save).parent


def name_from_here(notebook: Path) -> str:
    """Return the shortest text by which `find` finds a run from the working directory."""
    here, files = Path.cwd(), RunFiles(notebook)
    is_shadowed = (folder := files.shown.parent) != here and (here / files.shown.name).exists()
    if folder in (here, here / FOLDER) and not is_shadowed:
        return files.name
    return str(notebook.relative_to(here) if notebook.is_relative_to(here) else notebook)


def as_notebook(path: Path) -> Path:
    """Return the notebook of a run that is named by it, its folder, or their name without an ending."""
    return path.with_suffix(".ipynb") if path.suffix in {".ipynb", ".rlm"} else path.with_name(f"{path.name}.ipynb")


@contextlib.contextmanager
def _writable(folder: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # such as a null byte in the path
        why = getattr(error, "strerror", error)
        raise ConfigurationError(
            f"A run can't be saved in {folder}: {why}. Name another place for it, or change "
            "to a folder that you can write to."
        ) from error
