"""`WholeRun`: a run with its context and the runs that it started, wherever they are kept."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rlm_jupyter.record import catalog
from rlm_jupyter.record.blobs import Objects
from rlm_jupyter.record.export import embedded
from rlm_jupyter.record.export.files import Contents, gathered, redacted
from rlm_jupyter.record.redaction import Redactor
from rlm_jupyter.record.run_files import read_files
from rlm_jupyter.record.store import RunFiles
from rlm_jupyter.record.trajectory import Trajectory
from rlm_jupyter.types.errors import RecordError
from rlm_jupyter.types.events import Record, RunEnded, RunStarted, SubcallSettled
from rlm_jupyter.types.images import Image
from rlm_jupyter.types.values import PackedContext

_RECORD_END = {".rlm", ".ipynb"}
_MOST_PROMPT_CHARS = 20_000_000
"""Of all sub-calls' prompts that an export carries whole: a page of more opens in no browser."""
_MOST_IMAGE_BYTES = 40_000_000
"""Of all their images, likewise."""


@dataclass(frozen=True, slots=True)
class WholeRun:
    """All there is of a run."""

    trajectory: Trajectory
    context: PackedContext | None = None
    """`None`: it was not asked for, or is not with the run."""
    children: tuple[WholeRun, ...] = ()
    """The runs that it started, in the order in which they began; also those that still go on."""
    files: Contents = field(default_factory=dict)
    """What it was to make, and has made, by SHA-256; without what was not asked for, or is too large to be carried."""
    number: int = 1
    """Which prompt of its kernel it is."""
    prompts: tuple[WholeRun, ...] = ()
    """The further prompts to its kernel, in order."""

    @classmethod
    def gather(
        cls, run: str | Path | RunFiles, *, context: bool = True, outputs: bool = False, prompts: bool = True
    ) -> WholeRun:
        """Read a run that is kept.

        Parameters
        ----------
        run
            As for `catalog.find_prompts`, or its files.
        context
            Read the contexts too.
        outputs
            Read the files that it has made, too.
        prompts
            Read the further prompts to its kernel too, where it is the first, and not named alone.

        Raises
        ------
        RecordError
            There is no such run, or it can't be read.
        """
        if isinstance(run, RunFiles):
            files, others = run, run.prompts()[1:] if run.number == 1 else []
        else:
            files, *others = catalog.find_prompts(run)
        trajectory = Trajectory(read_files(files)[0])
        found = [*_kept_beside(files, context=context), *_kept_within(files)]
        made = gathered(trajectory.ended, files.objects) if outputs else {}
        below = _descendants(trajectory.run_id, found)
        further = []
        for other in others if prompts else ():
            with contextlib.suppress(RecordError):  # one that has only just been given its place
                further.append(cls.gather(other, context=context, outputs=outputs))
        kept = _context_of(files) if context else None
        whole = cls(trajectory, kept, below, made, files.number, tuple(further))
        return whole._with(_PromptReader(files.objects))

    def __iter__(self) -> Iterator[WholeRun]:
        """Yield the run itself, and all below it."""
        yield self
        for child in self.children:
            yield from child

    def _with(self, prompts: _PromptReader) -> WholeRun:
        """Return the same with the whole prompts of its sub-calls, and of the runs below."""
        trajectory = Trajectory([prompts.fill(record) for record in self.trajectory.records])
        return replace(self, trajectory=trajectory, children=tuple(child._with(prompts) for child in self.children))

    def redacted(self, redactor: Redactor) -> WholeRun:
        """Return the same without keys, home folders and user names; this one stays as it is."""
        clean = self._redacted(redactor)
        if redactor.keys:  # of which parts may stand where a text was cut
            redactor.settle()
            clean = self._redacted(redactor)
        return clean

    def _redacted(self, redactor: Redactor) -> WholeRun:
        prompts = {child.trajectory.run_id: text for child in self.children if (text := _text(child)) is not None}
        started, *rest = (redactor.record(record, prompts) for record in self.trajectory.records)
        context = None if self.context is None else redactor.context(self.context)
        if context is not None and context.kind != "none" and isinstance(started, RunStarted):
            started = replace(started, context=context.info)
        children = tuple(child._redacted(redactor) for child in self.children)
        files: Contents = {}
        if self.files and rest and isinstance(rest[-1], RunEnded):
            rest[-1], files = redacted(rest[-1], self.files, redactor)
        further = tuple(prompt._redacted(redactor) for prompt in self.prompts)
        return WholeRun(Trajectory([started, *rest]), context, children, files, self.number, further)


class _PromptReader:
    """Reads the sub-calls' prompts that a run keeps as objects, as many as an export carries."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._left = _MOST_PROMPT_CHARS
        self._left_of_images = _MOST_IMAGE_BYTES

    def fill(self, record: Record) -> Record:
        """Return the record with its whole prompt, and its images; as it is where they are not there, or too much."""
        if not isinstance(record, SubcallSettled):
            return record
        if record.images:
            record = replace(record, images=tuple(map(self._image, record.images)))
        return record if record.prompt is not None else self._whole(record)

    def _image(self, image: Image) -> Image:
        if image.data or self._left_of_images <= 0:
            return image
        with contextlib.suppress(RecordError):
            data = self._objects.get(image.sha256)
            self._left_of_images -= len(data)
            return replace(image, data=data)
        return image

    def _whole(self, record: SubcallSettled) -> SubcallSettled:
        if len(record.prompt_head) == record.prompt_chars or record.prompt_chars > self._left:
            return record
        with contextlib.suppress(RecordError):  # it was saved without
            prompt = str(self._objects.get(record.prompt_sha256), "utf-8", "surrogatepass")
            self._left -= len(prompt)
            return replace(record, prompt=prompt)
        return record


def _text(run: WholeRun) -> str | None:
    """Return a context that is a text, such as every child's."""
    if run.context is None or run.context.kind != "str":
        return None
    return str(run.context.buffers[0], "utf-8", "surrogatepass")


def _context_of(files: RunFiles) -> PackedContext | None:
    try:
        return files.load_context()
    except RecordError:
        return None


def _kept_beside(files: RunFiles, *, context: bool) -> Iterator[WholeRun]:
    """Yield the runs in the folder for those that a run starts."""
    folder = files.children
    with contextlib.suppress(OSError):
        for name in sorted({path.stem for path in folder.iterdir() if path.suffix in _RECORD_END}):
            child = RunFiles(folder / f"{name}.ipynb")
            with contextlib.suppress(RecordError):  # one that has only just been given its place
                trajectory = Trajectory.load(child.notebook)
                yield WholeRun(trajectory, _context_of(child) if context else None)


def _kept_within(files: RunFiles) -> Iterator[WholeRun]:
    if files.shown.is_file():
        for records, context in embedded.read_children(files.shown, files.number):
            yield WholeRun(Trajectory(records), context)


def _descendants(run_id: str, found: Iterable[WholeRun]) -> tuple[WholeRun, ...]:
    """Return the runs below one, each with those below it; what belongs to another run is left out."""
    seen: set[str] = set()
    below: dict[str | None, list[WholeRun]] = defaultdict(list)
    for run in found:
        if run.trajectory.run_id not in seen:
            seen.add(run.trajectory.run_id)
            below[run.trajectory.started.parent].append(run)

    def children(parent: str) -> tuple[WholeRun, ...]:
        # taken out, so that a record that names itself its parent leads nowhere
        runs = sorted(below.pop(parent, ()), key=lambda run: run.trajectory.started.started)
        return tuple(replace(run, children=children(run.trajectory.run_id)) for run in runs)

    return children(run_id)
